//! Percent-encoding, read strictly: what is not spelled right is nothing, instead of something else.

/// What a text says, if every `%` begins two hexadecimal digits and all of it is UTF-8 in the end.
pub(crate) fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, after @ ..] = rest {
        let (byte, left) = match (first, after) {
            (b'%', [high, low, left @ ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                ((digit(*high)? * 16 + digit(*low)?) as u8, left)
            }
            (b'%', _) => return None,
            (byte, left) => (*byte, left),
        };
        bytes.push(byte);
        rest = left;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_spelled_right_is_something() {
        for (text, expected) in [
            ("", Some("")),
            ("a b+c", Some("a b+c")),
            ("%41%c3%A9%25", Some("Aé%")),
            ("é%00", Some("é\0")),
            ("%", None),
            ("%4", None),
            ("%+1", None),
            ("%-1", None),
            ("% 1", None),
            ("%é", None),
            ("%C3", None),
            ("%FF", None),
        ] {
            assert_eq!(decoded(text).as_deref(), expected, "{text}");
        }
    }
}
