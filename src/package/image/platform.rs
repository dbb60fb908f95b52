//! What an image runs on.

use std::fmt;
use std::str::FromStr;

/// An operating system and the architecture of a processor, in the words of Go: `linux/amd64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Platform {
    /// `linux/amd64`
    Amd64,
    /// `linux/arm64`
    Arm64,
}

impl Platform {
    /// The platform of a container on this machine.
    pub fn of_this_machine() -> Self {
        if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::Amd64 }
    }

    /// The architecture in the words of Go, as images have it.
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The target of rustc that makes static binaries. glibc has the faster allocator, but only the
    /// compiler of the same architecture comes with it.
    pub fn target(self) -> &'static str {
        match self {
            Self::Amd64 if cfg!(all(target_arch = "x86_64", target_env = "gnu")) => {
                "x86_64-unknown-linux-gnu"
            }
            Self::Arm64 if cfg!(all(target_arch = "aarch64", target_env = "gnu")) => {
                "aarch64-unknown-linux-gnu"
            }
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }

    /// Its architecture in ELF.
    pub(super) fn machine(self) -> object::Architecture {
        match self {
            Self::Amd64 => object::Architecture::X86_64,
            Self::Arm64 => object::Architecture::Aarch64,
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "linux/{}", self.architecture())
    }
}

impl FromStr for Platform {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "linux/amd64" => Ok(Self::Amd64),
            "linux/arm64" => Ok(Self::Arm64),
            _ => Err("must be `linux/amd64` or `linux/arm64`".to_owned()),
        }
    }
}
