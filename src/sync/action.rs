//! What a plan does with a file, and how that is printed.

/// What a plan does with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The file is new.
    Create,
    /// The file has no edits and gets the new text.
    Update,
    /// The file has edits, which are merged with the change.
    Merge,
    /// The file moves to another path, with its edits.
    Move,
    /// The file has no edits and is no longer generated.
    Delete,
    /// The file is replaced, because `--force` names it.
    Overwrite,
    /// The user's version of a file that is replaced is kept under this name.
    Copy,
    /// The file stays as it is, for the given reason.
    Keep(&'static str),
    /// The file already has the new text.
    Identical,
    /// The change cannot be made without the loss of the user's version, for the given reason.
    Conflict(Reason),
    /// A conflict that is written to the file between conflict markers.
    Mark,
}

/// Why there is a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The file exists, although opctl has not written it.
    Exists,
    /// The user has edited the file that the command writes anew.
    Edited,
    /// The change and the user's edits touch the same lines.
    Overlap,
    /// The user's version is not a text and cannot be merged.
    Binary,
    /// The file has edits, and opctl cannot tell them from what it wrote.
    UnknownBase,
    /// The file has the markers of an earlier conflict.
    Markers,
    /// Nobody may write the file.
    ReadOnly,
    /// The user and opctl have added the same lines, at different places.
    Duplicate,
}

impl Action {
    /// The verb that is printed before the path.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Merge => "merge",
            Self::Move => "move",
            Self::Delete => "delete",
            Self::Overwrite => "overwrite",
            Self::Copy => "copy",
            Self::Keep(_) => "keep",
            Self::Identical => "identical",
            Self::Conflict(_) | Self::Mark => "conflict",
        }
    }

    /// The reason that is printed after the path, unless the verb is enough.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Keep(reason) => Some(reason),
            Self::Conflict(Reason::Exists) => Some("already exists"),
            Self::Conflict(Reason::Edited) => Some("edited by you"),
            Self::Conflict(Reason::Overlap) => Some("conflicts with your edits"),
            Self::Conflict(Reason::Binary) => Some("not a text file"),
            Self::Conflict(Reason::UnknownBase) => Some("edited since an unknown version"),
            Self::Conflict(Reason::Markers) => Some("has conflict markers"),
            Self::Conflict(Reason::ReadOnly) => Some("read-only"),
            Self::Conflict(Reason::Duplicate) => Some("would repeat lines that you added"),
            Self::Copy => Some("your version"),
            Self::Mark => Some("resolve the conflict markers"),
            _ => None,
        }
    }

    /// Whether the conflict can be written to the file between markers.
    pub fn can_be_marked(self) -> bool {
        matches!(self, Self::Conflict(Reason::Overlap | Reason::Duplicate | Reason::Edited))
    }
}
