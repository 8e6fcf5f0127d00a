//! The text of a graph's id: 8-4-4-4-12 hexadecimal digits.

/// Parses an id.
pub fn parse(text: &str) -> Option<[u8; 16]> {
    let groups: Vec<&str> = text.split('-').collect();
    let digits = groups.concat();
    let is_canonical = groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_canonical.then(|| u128::from_str_radix(&digits, 16).ok())?;
    number.map(u128::to_be_bytes)
}

/// Formats an id.
pub fn format(id: [u8; 16]) -> String {
    let mut digits = format!("{:032x}", u128::from_be_bytes(id));
    for place in [20, 16, 12, 8] {
        digits.insert(place, '-');
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_have_one_form() {
        let text = "3f0c9a52-7d14-4e8b-9b60-1a2c55d07e91";
        let id = parse(text).unwrap();
        assert_eq!(id[0], 0x3f);
        assert_eq!(id[15], 0x91);
        assert_eq!(format(id), text);
        assert_eq!(parse(&text.to_uppercase()), Some(id));
        assert_eq!(format([0; 16]), "00000000-0000-0000-0000-000000000000");
        for bad in [
            "",
            "-",
            "3f0c9a527d144e8b9b601a2c55d07e91",
            "3f0c9a52-7d14-4e8b-9b60-1a2c55d07e9",
            "3f0c9a52-7d14-4e8b-9b60-1a2c55d07e91-",
            "3f0c9a52-7d14-4e8b-9b601-a2c55d07e91",
            "+f0c9a52-7d14-4e8b-9b60-1a2c55d07e91",
            "{3f0c9a52-7d14-4e8b-9b60-1a2c55d07e91}",
            "é0c9a52-7d14-4e8b-9b60-1a2c55d07e91",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
