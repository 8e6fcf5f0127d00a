//! Base64, as in RFC 4648.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let bits =
            part.iter().chain([0; 2].iter()).take(3).fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        for at in 0..4 {
            let letter = LETTERS.get((bits >> (18 - 6 * at) & 63) as usize).copied().unwrap_or(b'=');
            text.push(if at > part.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

/// Decodes a text; none if it is not valid.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let (parts, rest) = text.as_bytes().as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(parts.len() * 3);
    for (number, part) in parts.iter().enumerate() {
        let filled = part.iter().rev().take_while(|letter| **letter == b'=').count();
        if filled > 2 || (filled > 0 && number + 1 != parts.len()) {
            return None;
        }
        let mut bits = 0_u32;
        for letter in part.iter().take(4 - filled) {
            let value = LETTERS.iter().position(|of| of == letter)?;
            bits = bits << 6 | u32::try_from(value).ok()?;
        }
        let whole = (bits << (6 * filled)).to_be_bytes();
        bytes.extend(whole.get(1..4 - filled)?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_the_standard() {
        for (plain, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(encode(plain.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), plain.as_bytes());
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)).unwrap(), all);
        for wrong in ["Zg=", "Zg==Zg==", "Z===", "Zm9*"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
