//! The daemon around a control thread that fails.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use super::inbox::Inbox;
use super::*;

/// Serves as `run` does, with `work` for the control thread, until `told` is dropped.
fn daemon(
    limits: http::Limits,
    told: oneshot::Receiver<Infallible>,
    work: impl FnOnce(&Inbox) + Send + 'static,
) -> (SocketAddr, JoinHandle<Result<(), Error>>) {
    let listeners = http::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = listeners.addresses()[0];
    let thread = thread::spawn(move || {
        let (messages, inbox) = inbox::inbox();
        let ended = start_control(move || work(&inbox))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let web = http::Config { limits, ..http::Config::default() };
        let told = async { drop(told.await) };
        let content = FromControl::new(messages.clone(), OwnCounters::new().unwrap());
        runtime.block_on(serve_while(ended, serve(listeners, web, content, told, &messages)))
    });
    (address, thread)
}

/// What `/-/healthy` answers; nothing when the connection was cut.
fn health(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(b"GET /-/healthy HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn answer_one(inbox: &Inbox) {
    match inbox.wait(false, Duration::from_secs(60)).unwrap() {
        Message::Ready(tell) => tell.send(Err("not yet".into())).unwrap(),
        _ => panic!("asked for something else"),
    }
}

#[test]
fn a_control_thread_that_panics_ends_the_daemon() {
    let (_told, never) = oneshot::channel();
    let (address, daemon) = daemon(http::Limits::default(), never, |inbox| {
        answer_one(inbox);
        drop(inbox.wait(false, Duration::from_secs(60)));
        panic!("on purpose");
    });
    assert!(health(address).contains(" 200 OK\r\n"), "not ready, but healthy");
    assert!(!health(address).contains(" 200 OK\r\n"));
    let error = daemon.join().unwrap().unwrap_err();
    assert!(matches!(error, Error::ControlEnded), "{error:?}");
    assert!(error.to_string().contains("control thread ended"), "{error}");
}

#[test]
fn a_control_thread_that_answers_no_more_is_not_healthy_and_its_end_is_an_error_while_draining_too() {
    let (release, released) = channel::<()>();
    let (tell, told) = oneshot::channel();
    let limits = http::Limits { content_within: Duration::from_millis(100), ..http::Limits::default() };
    let (address, daemon) = daemon(limits, told, move |inbox| {
        answer_one(inbox);
        let _ = released.recv();
    });
    assert!(health(address).contains(" 200 OK\r\n"));
    let answer = health(address);
    assert!(answer.contains(" 503 Service Unavailable\r\n") && answer.contains("did not answer"), "{answer}");
    drop(tell);
    // Told to end, it waits for the control thread, which ends without a word.
    drop(release);
    assert!(matches!(daemon.join().unwrap(), Err(Error::ControlEnded)));
}
