//! Connections over the event loop.

mod support;

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::EventLoop;
use evenkeel_host::net::{ByteStream, Listener, Stream, connect_tcp, connect_unix};
use support::{all, loops};

/// Sends back what comes, until the end.
async fn echo(stream: Stream) {
    let mut buffer = vec![0; 70_000];
    loop {
        let (count, bytes) = stream.read(buffer, 3).await;
        let Ok(count @ 1..) = count else { return };
        let (sent, answer) = stream.write(bytes[3..3 + count].to_vec()).await;
        if sent.is_err() {
            return;
        }
        drop(answer);
        buffer = bytes;
    }
}

fn serve_echo(event_loop: &EventLoop, listener: Listener) {
    let env = event_loop.handle();
    env.clone().spawn(async move {
        while let Ok(stream) = listener.accept().await {
            env.spawn(echo(stream));
        }
    });
}

/// Sends and receives at the same time, more than any socket buffers.
async fn converse(stream: Stream, seed: u8) {
    let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 3) as u8 ^ seed).collect();
    let stream = Rc::new(stream);
    let (writing, expected) = (Rc::clone(&stream), sent.clone());
    all([
        Box::pin(async move { writing.write(sent).await.0.unwrap() })
            as std::pin::Pin<Box<dyn Future<Output = ()>>>,
        Box::pin(async move {
            let (mut buffer, mut from) = (vec![0; expected.len()], 0);
            while from < expected.len() {
                let count;
                (count, buffer) = stream.read(buffer, from).await;
                let count = count.unwrap();
                assert!(count > 0, "the end came after {from} bytes");
                from += count;
            }
            assert!(buffer == expected);
            stream.shutdown();
            assert_eq!(stream.read(vec![0; 1], 0).await.0.unwrap_or(0), 0);
        }),
    ])
    .await;
}

#[test]
fn everything_comes_back_over_unix_sockets_and_tcp() {
    for event_loop in loops() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let env = event_loop.handle();
        let unix = Listener::unix(&env, &path).unwrap();
        let tcp = Listener::tcp(&env, "127.0.0.1:0").unwrap();
        let address = tcp.tcp_address().unwrap();
        assert!(unix.tcp_address().is_err());
        serve_echo(&event_loop, unix);
        serve_echo(&event_loop, tcp);
        event_loop.block_on(async {
            all((0..8_u8).map(|client| {
                let (env, path) = (env.clone(), path.clone());
                Box::pin(async move {
                    let stream = match client % 2 {
                        0 => connect_unix(&env, &path).await.unwrap(),
                        _ => connect_tcp(&env, address).await.unwrap(),
                    };
                    converse(stream, client).await;
                }) as std::pin::Pin<Box<dyn Future<Output = ()>>>
            }))
            .await;
        });
    }
}

#[test]
fn shutdown_ends_a_read_under_way() {
    for event_loop in loops() {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        let stream = Rc::new(Stream::new(&event_loop.handle(), ours.into()));
        let other = Rc::clone(&stream);
        let env = event_loop.handle();
        event_loop.handle().spawn(async move {
            env.sleep(2_000_000).await;
            other.shutdown();
        });
        event_loop.block_on(async {
            let (count, buffer) = stream.read(vec![5; 9], 0).await;
            assert_eq!((count.unwrap(), buffer), (0, vec![5; 9]));
            // Nobody reads any more: an error, and not a signal that ends the process.
            assert_eq!(stream.write(vec![1; 9]).await.0.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        });
        assert_eq!(theirs.read(&mut [0; 4]).unwrap(), 0);
        assert!(theirs.write_all(b"x").is_err());
    }
}

#[test]
fn a_unix_socket_is_for_its_user_only_and_goes_with_its_listener() {
    for event_loop in loops() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let env = event_loop.handle();
        let listener = Listener::unix(&env, &path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let second = Listener::unix(&env, &path).unwrap_err();
        assert_eq!(second.source.kind(), io::ErrorKind::AddrInUse);
        assert!(second.to_string().contains("socket"), "{second}");
        drop(listener);
        assert!(!path.exists());

        // A dead process's socket is replaced; anything else is not.
        drop(UnixListener::bind(&path).unwrap());
        let listener = Listener::unix(&env, &path).unwrap();
        // Another has taken its place: it stays.
        fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop(listener);
        assert!(path.exists());
        drop(other);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        let refused = Listener::unix(&env, &path).unwrap_err();
        assert_eq!(refused.source.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }
}

#[test]
fn a_path_may_be_longer_than_the_address_of_a_socket() {
    for event_loop in loops() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(200)).join("e".repeat(200));
        fs::create_dir_all(&deep).unwrap();
        let path = deep.join("socket");
        let env = event_loop.handle();
        let listener = Listener::unix(&env, &path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        event_loop.block_on(async {
            let (remote, client) = (path.clone(), env.clone());
            env.spawn(async move { echo(connect_unix(&client, &remote).await.unwrap()).await });
            let stream = listener.accept().await.unwrap();
            stream.write(b"hello".to_vec()).await.0.unwrap();
            let (count, bytes) = stream.read(vec![0; 5], 0).await;
            assert_eq!((count.unwrap(), &bytes[..]), (5, &b"hello"[..]));
        });
        // In use, left by a dead process, and gone, as with any other.
        let error = Listener::unix(&env, &path).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert!(!path.exists());
        let too_long = deep.join("s".repeat(120));
        let error = Listener::unix(&env, &too_long).unwrap_err().to_string();
        assert!(error.contains("name is too long"), "{error}");
    }
}

#[test]
fn a_socket_that_was_handed_over_is_accepted_from() {
    for event_loop in loops() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let inherited = UnixListener::bind(&path).unwrap();
        // As some service managers do.
        inherited.set_nonblocking(true).unwrap();
        let env = event_loop.handle();
        let listener = Listener::from_fd(&env, inherited.into()).unwrap();
        event_loop.block_on(async {
            let remote = path.clone();
            env.clone().spawn(async move {
                env.sleep(2_000_000).await;
                echo(connect_unix(&env, &remote).await.unwrap()).await;
            });
            let stream = listener.accept().await.unwrap();
            stream.write(b"hello".to_vec()).await.0.unwrap();
            let (count, bytes) = stream.read(vec![0; 5], 0).await;
            assert_eq!((count.unwrap(), &bytes[..]), (5, &b"hello"[..]));
        });
        drop(listener);
        assert!(path.exists(), "it is its giver's to remove");
        let not_listening = UnixStream::pair().unwrap().0;
        assert!(Listener::from_fd(&event_loop.handle(), not_listening.into()).is_err());
    }
}

#[test]
fn a_socket_where_others_wait_to_be_accepted_is_in_use_and_nobody_waits_behind_them() {
    for event_loop in loops() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let full = UnixListener::bind(&path).unwrap();
        // One may wait.
        rustix::net::listen(&full, 0).unwrap();
        let _waits = UnixStream::connect(&path).unwrap();
        let refused = Listener::unix(&event_loop.handle(), &path).unwrap_err();
        assert_eq!(refused.source.kind(), io::ErrorKind::AddrInUse);
        assert!(path.exists());
    }
}
