//! A network between instances that can be cut.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A port that leads to another one.
pub struct Link {
    pub port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_cut: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Link {
    pub fn to(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if !shared.is_cut.load(Ordering::SeqCst) {
                    // Without the other end, the connection is closed.
                    let _ = connect(stream, target, &shared);
                }
            }
        });
        Self { port, state }
    }

    /// Closes all connections and refuses new ones, or allows them again.
    pub fn cut(&self, is_cut: bool) {
        self.state.is_cut.store(is_cut, Ordering::SeqCst);
        if is_cut {
            for stream in self.state.streams.lock().unwrap().drain(..) {
                let _ = stream.shutdown(Shutdown::Both); // it may be closed already
            }
        }
    }
}

fn connect(stream: TcpStream, target: u16, state: &State) -> io::Result<()> {
    let other = TcpStream::connect((Ipv4Addr::LOCALHOST, target))?;
    let mut streams = state.streams.lock().unwrap();
    streams.retain(|stream| stream.peer_addr().is_ok());
    for (from, to) in [(&stream, &other), (&other, &stream)] {
        let (mut reader, mut writer) = (from.try_clone()?, to.try_clone()?);
        thread::spawn(move || {
            let _ = io::copy(&mut reader, &mut writer);
            for stream in [reader, writer] {
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
    }
    streams.extend([stream, other]);
    Ok(())
}
