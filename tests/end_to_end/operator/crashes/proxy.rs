//! A proxy between an operator and its API server that kills the operator at one of its writes.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::spawn;

use rustix::process::{Pid, Signal, kill_process};

use super::http::Request;

/// When the operator dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// It has sent the write, but the API server never sees it.
    BeforeWrite,
    /// The API server has done it, but the answer never comes.
    BeforeAnswer,
}

/// Kills the operator at its n-th write, counted from 1.
#[derive(Debug, Clone, Copy)]
pub struct Kill {
    pub write: usize,
    pub moment: Moment,
}

pub struct Proxy {
    pub port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    victim: Option<Pid>,
    kill: Option<Kill>,
    /// The writes since the kill was planned.
    writes: Vec<String>,
}

impl Proxy {
    /// A proxy for the plain HTTP server on that port of this machine.
    pub fn start(upstream: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<Mutex<State>>::default();
        let proxy = Self { port, state: Arc::clone(&state) };
        // It goes with the process of the test.
        spawn(move || {
            for connection in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                // A connection that breaks is what this is about.
                spawn(move || drop(serve(&state, upstream, connection)));
            }
        });
        proxy
    }

    /// Plans the death of the operator, and counts its writes from now on.
    pub fn plan(&self, victim: Pid, kill: Option<Kill>) {
        let victim = Some(victim);
        *self.state.lock().unwrap() = State { victim, kill, writes: Vec::new() };
    }

    /// Whether the operator is dead.
    pub fn has_killed(&self) -> bool {
        self.state.lock().unwrap().victim.is_none()
    }

    /// The writes since the last plan.
    pub fn writes(&self) -> Vec<String> {
        self.state.lock().unwrap().writes.clone()
    }
}

impl State {
    /// Whether the operator dies at the next write, at this moment of it.
    fn dies(&self, moment: Moment) -> bool {
        let write = self.writes.len() + 1;
        self.victim.is_some()
            && self.kill.is_some_and(|kill| kill.write == write && kill.moment == moment)
    }

    fn count(&mut self, request: &Request) {
        if self.victim.is_some() {
            self.writes.push(request.head.lines().next().unwrap_or_default().to_owned());
        }
    }

    fn kill(&mut self) {
        if let Some(victim) = self.victim.take() {
            kill_process(victim, Signal::KILL).unwrap();
        }
    }
}

fn serve(state: &Mutex<State>, upstream: u16, mut client: TcpStream) -> io::Result<()> {
    let Some(request) = Request::read(&client)? else {
        return Ok(());
    };
    {
        let mut state = state.lock().unwrap();
        if request.writes() && state.dies(Moment::BeforeWrite) {
            state.kill();
            return Ok(());
        }
    }
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, upstream))?;
    server.write_all(request.head.as_bytes())?;
    server.write_all(&request.body)?;
    if request.writes() {
        let mut answer = Vec::new();
        server.read_to_end(&mut answer)?;
        let mut state = state.lock().unwrap();
        // A refused one is no write: an operator may ask so whether an object exists.
        if !answer.starts_with(b"HTTP/1.1 409") {
            if state.dies(Moment::BeforeAnswer) {
                state.kill();
                return Ok(());
            }
            state.count(&request);
        }
        client.write_all(&answer)?;
        return client.shutdown(Shutdown::Both);
    }
    if request.watches() {
        end_together(&client, &server)?;
    }
    io::copy(&mut server, &mut client)?;
    client.shutdown(Shutdown::Both)
}

/// Ends the watch of a client that is gone, though it has no events.
fn end_together(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    let (mut client, server) = (client.try_clone()?, server.try_clone()?);
    spawn(move || {
        let _ = client.read(&mut [0; 1]);
        let _ = server.shutdown(Shutdown::Both);
    });
    Ok(())
}
