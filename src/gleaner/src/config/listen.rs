//! Where the box listens, as an operator writes it: one address, or several.

use super::paths;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use server::ListenAddress;
use std::fmt;
use std::path::Path;

/// What stands before the path of a Unix socket.
const UNIX: &str = "unix:";
/// The longest path of a socket that the kernel takes: 108 bytes with a zero at the end (unix(7)).
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// More than these nobody needs, and each takes a descriptor.
const LISTENERS_MAX: usize = 16;

/// An address as it stands in the file.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Written(ListenAddress);

impl TryFrom<String> for Written {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        parse(&text).map(Written)
    }
}

fn parse(text: &str) -> Result<ListenAddress, String> {
    if let Some(path) = text.strip_prefix(UNIX) {
        if path.is_empty() || path.ends_with('/') {
            return Err(format!("\"{text}\" names no file, as unix:/run/gleaner/http.sock does"));
        }
        let path = paths::make_absolute(Path::new(path))?;
        return match path.as_os_str().len() {
            0..=SOCKET_PATH_BYTES_MAX => Ok(ListenAddress::Unix(path)),
            bytes => Err(format!(
                "the path {} has {bytes} bytes, and a socket's may have {SOCKET_PATH_BYTES_MAX}",
                path.display()
            )),
        };
    }
    text.parse().map(ListenAddress::Tcp).map_err(|_| {
        format!(
            "\"{text}\" is not an address with a port, such as 127.0.0.1:8420, [::1]:8420 or, for every network, \
             0.0.0.0:8420; a name is not taken (a Unix socket is unix:/path/of/the.sock)"
        )
    })
}

/// A string with one address, or several with commas between them, as a variable of the environment has them; or a list.
pub(super) fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ListenAddress>, D::Error> {
    deserializer.deserialize_any(Addresses)
}

struct Addresses;

impl<'de> Visitor<'de> for Addresses {
    type Value = Vec<ListenAddress>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address such as \"127.0.0.1:8420\", or a list of them")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let each = text.split(',').map(|part| parse(part.trim()).map_err(E::custom));
        checked(each.collect::<Result<_, _>>()?)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while let Some(Written(address)) = list.next_element()? {
            found.push(address);
        }
        checked(found)
    }
}

fn checked<E: de::Error>(found: Vec<ListenAddress>) -> Result<Vec<ListenAddress>, E> {
    if found.is_empty() {
        return Err(E::custom("must have one address at least"));
    }
    if found.len() > LISTENERS_MAX {
        return Err(E::custom(format!("must have {LISTENERS_MAX} addresses at most, not {}", found.len())));
    }
    for (at, address) in found.iter().enumerate() {
        let is_any_port = matches!(address, ListenAddress::Tcp(address) if address.port() == 0);
        if !is_any_port && found[..at].contains(address) {
            return Err(E::custom(format!("{address} stands there twice")));
        }
    }
    Ok(found)
}

/// The mode of Unix sockets, in octal digits as chmod takes it.
pub(super) fn mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let text = String::deserialize(deserializer)?;
    let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777 && !text.starts_with('+'));
    mode.ok_or_else(|| de::Error::custom(format!("\"{text}\" is no mode in octal digits, such as \"0660\"")))
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use server::ListenAddress;
    use std::path::PathBuf;

    fn listen(value: &str) -> Result<Vec<String>, String> {
        let given = format!("[server]\nlisten = {value}\npublic_url = \"https://box.example\"\n");
        let config = Config::merge("a.toml", &given, []).map_err(|e| e.for_operator())?;
        Ok(config.server.listen.iter().map(ListenAddress::to_string).collect())
    }

    #[test]
    fn one_address_or_several_are_taken() {
        let here = std::env::current_dir().unwrap();
        for (given, read) in [
            ("\"127.0.0.1:1\"", vec!["127.0.0.1:1"]),
            ("\"127.0.0.1:1, [::1]:2\"", vec!["127.0.0.1:1", "[::1]:2"]),
            ("[\"127.0.0.1:1\", \"[::1]:2\"]", vec!["127.0.0.1:1", "[::1]:2"]),
            ("[\"127.0.0.1:0\", \"127.0.0.1:0\"]", vec!["127.0.0.1:0", "127.0.0.1:0"]),
            ("[\"unix:/run/a, b.sock\"]", vec!["unix:/run/a, b.sock"]),
            ("\"unix:a.sock\"", vec![&*format!("unix:{}", here.join("a.sock").display())]),
        ] {
            assert_eq!(listen(given).unwrap(), read, "{given}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let long = format!("\"unix:/{}\"", "x".repeat(107));
        for (given, told) in [
            ("[]", "server.listen: must have one address at least"),
            ("[\"127.0.0.1:1\", \"box:2\"]", "server.listen[1]: \"box:2\" is not an address with a port"),
            ("\"127.0.0.1:1,\"", "server.listen: \"\" is not an address with a port"),
            ("[\"[::1]:1\", \"[::1]:1\"]", "server.listen: [::1]:1 stands there twice"),
            ("\"unix:\"", "server.listen: \"unix:\" names no file"),
            ("\"unix:/run/\"", "server.listen: \"unix:/run/\" names no file"),
            (&long, "bytes, and a socket's may have 107"),
            ("8420", "server.listen: invalid type: integer `8420`, expected an address such as"),
            ("[8420]", "server.listen[0]: invalid type"),
        ] {
            let refused = listen(given).expect_err(given);
            assert!(refused.contains(told), "{given}: {refused}");
        }
    }

    #[test]
    fn a_mode_is_octal() {
        let mode = |text: &str| {
            let env = [("GLEANER_SERVER__SOCKET_MODE".to_owned(), text.to_owned())];
            Config::merge("a.toml", "", env)
                .map(|config| config.server.socket_mode)
                .map_err(|e| e.for_operator())
        };
        assert_eq!((mode("0660"), mode("666")), (Ok(0o660), Ok(0o666)));
        for wrong in ["rw-rw----", "1777", "8", "", "+660", "-1"] {
            assert!(mode(wrong).is_err_and(|told| told.starts_with("server.socket_mode: ")), "{wrong}");
        }
    }

    #[test]
    fn a_box_at_unix_sockets_alone_says_how_it_is_reached() {
        let of = |given: &str| Config::merge("a.toml", given, []);
        let refused = of("[server]\nlisten = \"unix:/run/a.sock\"\n").unwrap_err().for_operator();
        assert!(refused.starts_with("server.public_url: must be set"), "{refused}");
        let given = "[server]\nlisten = [\"unix:/run/a.sock\"]\npublic_url = \"https://a.example/b\"\n";
        let listen = of(given).unwrap().server.listen;
        assert_eq!(listen, [ListenAddress::Unix(PathBuf::from("/run/a.sock"))]);
    }
}
