//! An export in memory over NBD, and a client that loads it: to try real clients, and to see what a request
//! costs without a drive.
//!
//! ```text
//! nbd_ram serve SOCKET SIZE_BYTES [--tls FOLDER] [--record FOLDER] [--read-only]
//! nbd_ram load SOCKET fua-writes|writes|reads DEPTH SECONDS
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr)] // A program.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, EventLoop};
use evenkeel_host::front::nbd::fuzzing::RamExport;
use evenkeel_host::front::nbd::limits::Limits;
use evenkeel_host::front::nbd::server::Server;
use evenkeel_host::nbd::client::{Client, ConnectOptions};
use evenkeel_host::nbd::tls::TlsServer;
use evenkeel_host::net::{ByteStream, Listener, Stream, connect_unix};

/// Bytes of one request.
const REQUEST_BYTES: u64 = 4096;

/// A stream that writes what came to a file.
struct Recorded {
    stream: Stream,
    file: RefCell<File>,
}

impl ByteStream for Recorded {
    async fn read(&self, buffer: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        let (read, buffer) = self.stream.read(buffer, from).await;
        if let Ok(len) = read {
            self.file.borrow_mut().write_all(&buffer[from..from + len]).expect("the record can be written");
        }
        (read, buffer)
    }

    async fn write_some(&self, buffer: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        self.stream.write_some(buffer, from).await
    }

    fn shutdown(&self) {
        self.stream.shutdown();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["serve", socket, size, ref rest @ ..] => serve(Path::new(socket), size.parse()?, rest),
        ["load", socket, kind, depth, seconds] => {
            load(Path::new(socket), kind, depth.parse()?, seconds.parse()?)
        }
        _ => Err("serve SOCKET SIZE_BYTES [--tls FOLDER] [--record FOLDER] [--read-only], or load SOCKET KIND DEPTH SECONDS".into()),
    }
}

fn serve(socket: &Path, size_bytes: usize, mut options: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut export = RamExport::new(size_bytes);
    let (mut tls, mut record): (_, Option<PathBuf>) = (None, None);
    loop {
        options = match options {
            ["--tls", folder, rest @ ..] => {
                tls = Some(TlsServer::from_folder(Path::new(folder))?);
                rest
            }
            ["--record", folder, rest @ ..] => {
                record = Some(folder.into());
                rest
            }
            ["--read-only", rest @ ..] => {
                export = export.read_only();
                rest
            }
            [] => break,
            [other, ..] => return Err(format!("`{other}` is no option").into()),
        };
    }
    let event_loop = EventLoop::new(Backend::Auto)?;
    let handle = event_loop.handle();
    let server = Server::new(handle.clone(), export, Limits::default(), tls);
    let listener = Listener::unix(&handle, socket)?;
    event_loop.block_on(async move {
        for number in 0.. {
            let stream = match listener.accept().await {
                Ok(stream) => stream,
                Err(error) => {
                    eprintln!("cannot accept: {error}");
                    break;
                }
            };
            let serving = server.clone();
            let record = record.clone();
            handle.spawn(async move {
                let ending = match record {
                    Some(folder) => {
                        let file =
                            File::create(folder.join(format!("{number}"))).expect("the record can be made");
                        let recorded = Recorded { stream, file: RefCell::new(file) };
                        serving.serve(recorded, "local").await
                    }
                    None => serving.serve(stream, "local").await,
                };
                println!("{ending}");
            });
        }
    });
    Ok(())
}

fn load(socket: &Path, kind: &str, depth: u64, seconds: u64) -> Result<(), Box<dyn Error>> {
    let durability = match kind {
        "fua-writes" => Some(Durability::Durable),
        "writes" => Some(Durability::Buffered),
        "reads" => None,
        _ => return Err("KIND is fua-writes, writes or reads".into()),
    };
    let event_loop = EventLoop::new(Backend::Auto)?;
    let handle = event_loop.handle();
    let done = Rc::new(Cell::new(0u64));
    let began = Instant::now();
    let result = event_loop.block_on(async {
        let stream = connect_unix(&handle, socket).await?;
        let client = Client::connect(&handle, stream, &ConnectOptions::default()).await?;
        let blocks = client.negotiated().size_bytes / REQUEST_BYTES;
        for _ in 0..depth {
            let (client, done, env) = (client.clone(), Rc::clone(&done), handle.clone());
            handle.spawn(async move {
                let mut buffer = vec![7; REQUEST_BYTES as usize];
                loop {
                    let offset = env.random() % blocks * REQUEST_BYTES;
                    let result = match durability {
                        Some(durability) => client.write(offset, &buffer, durability).await,
                        None => client.read(offset, &mut buffer).await,
                    };
                    if result.is_err() {
                        return;
                    }
                    done.set(done.get() + 1);
                }
            });
        }
        handle.sleep(seconds * 1_000_000_000).await;
        Ok::<_, Box<dyn Error>>(client.negotiated().headers)
    });
    let rate = done.get() as f64 / began.elapsed().as_secs_f64();
    println!("{kind}, {depth} deep: {rate:.0} a second with {:?} headers", result?);
    Ok(())
}
