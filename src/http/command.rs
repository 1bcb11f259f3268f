//! What a client may ask the daemon to do: the paths below `/api/v1`, their parameters, and who may not.

use std::net::IpAddr;
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::ORIGIN;

use super::query;
use crate::units::Span;

/// How long a pause is where nothing is said.
pub const PAUSE: Span = Span::seconds(3600);
/// The longest pause: one that is forgotten must not hide a disk for ever.
pub const LONGEST_PAUSE: Span = Span::seconds(7 * 86_400);

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Leave a target alone, for so long from now on.
    Pause {
        /// The target's name.
        target: String,
        /// At least a second, at most [`LONGEST_PAUSE`].
        length: Duration,
    },
    /// Go on with a target. One that is not paused goes on anyway.
    Resume {
        /// The target's name.
        target: String,
    },
}

/// There is no target of that name; these there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoTarget(pub Vec<String>);

/// A command by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Pause,
    Resume,
}

impl Verb {
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Pause => "/api/v1/pause",
            Self::Resume => "/api/v1/resume",
        }
    }

    /// The command with the parameters of `query`; an error is one sentence.
    pub(super) fn command(self, query: &str) -> Result<Command, String> {
        let (mut target, mut length) = (None, None);
        for (name, value) in query::parse(query)? {
            let place = match (name.as_str(), self) {
                ("target", _) => &mut target,
                ("for", Self::Pause) => &mut length,
                _ => return Err(format!("the parameter `{name}` is not known; {}", self.usage())),
            };
            if place.replace(value).is_some() {
                return Err(format!("the parameter `{name}` is there twice"));
            }
        }
        let target = target
            .filter(|name| !name.is_empty())
            .ok_or_else(|| format!("which target? {}", self.usage()))?;
        Ok(match self {
            Self::Resume => Command::Resume { target },
            Self::Pause => {
                let length = length.map_or(Ok(PAUSE), |text| parse_pause(&text))?;
                Command::Pause { target, length: length.get() }
            }
        })
    }

    fn usage(self) -> String {
        match self {
            Self::Pause => format!("write `{}?target=NAME&for={PAUSE}`", self.path()),
            Self::Resume => format!("write `{}?target=NAME`", self.path()),
        }
    }
}

/// The length of a pause as people write it. An error is one sentence.
pub fn parse_pause(text: &str) -> Result<Span, String> {
    let length: Span = text.parse()?;
    if length < Span::seconds(1) || length > LONGEST_PAUSE {
        return Err(format!("a pause is from 1s to {LONGEST_PAUSE} long, and `{text}` is not"));
    }
    Ok(length)
}

/// The path and query that ask for a command.
pub(super) fn request(command: &Command) -> String {
    match command {
        Command::Pause { target, length } => {
            // In milliseconds, so that nothing is lost by the way.
            let (path, name) = (Verb::Pause.path(), query::encode(target));
            format!("{path}?target={name}&for={}ms", length.as_millis())
        }
        Command::Resume { target } => format!("{}?target={}", Verb::Resume.path(), query::encode(target)),
    }
}

/// Whether a browser sends it from a page. There is no page of ours that commands, so it is somebody else's: a browser says
/// where a POST comes from, also from a form, and also where a name was made to lead here.
pub(super) fn from_a_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.contains_key("sec-fetch-site")
}

/// Whether it comes from this machine. Whoever may scrape from elsewhere may not silence a disk: nobody says who they are.
pub(super) fn from_here(peer: IpAddr) -> bool {
    peer.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn a_pause_has_a_name_and_a_length() {
        let pause = |query| Verb::Pause.command(query);
        let expected = |length| Command::Pause { target: "a b".into(), length };
        assert_eq!(pause("target=a%20b"), Ok(expected(PAUSE.get())));
        assert_eq!(pause("for=90s&target=a+b"), Ok(expected(Duration::from_secs(90))));
        assert_eq!(pause("for=7d&target=a+b"), Ok(expected(LONGEST_PAUSE.get())));
        for (query, said) in [
            ("", "which target? write `/api/v1/pause?target=NAME&for=1h`"),
            ("target=", "which target?"),
            ("target=a&for=90", "has no unit"),
            ("target=a&for=0s", "from 1s to 7days"),
            ("target=a&for=8d", "from 1s to 7days"),
            ("target=a&until=tomorrow", "`until` is not known"),
            ("target=a&target=b", "there twice"),
            ("target=%zz", "hexadecimal"),
        ] {
            let error = pause(query).unwrap_err();
            assert!(error.contains(said), "{query}: {error}");
        }
        assert_eq!(Verb::Resume.command("target=a"), Ok(Command::Resume { target: "a".into() }));
        assert!(Verb::Resume.command("target=a&for=1h").unwrap_err().contains("`for` is not known"));
    }

    proptest! {
        #[test]
        fn what_is_asked_for_is_understood(target in "\\PC{1,200}", millis in 1000u64..604_800_000) {
            let pause = Command::Pause { target: target.clone(), length: Duration::from_millis(millis) };
            for (verb, command) in [(Verb::Pause, pause), (Verb::Resume, Command::Resume { target })] {
                let asked = request(&command);
                let (path, query) = asked.split_once('?').unwrap();
                prop_assert_eq!(path, verb.path());
                prop_assert_eq!(verb.command(query), Ok(command));
            }
        }
    }
}
