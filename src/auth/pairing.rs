//! Codes that a person types or compares to add a device, and the hashes under which codes and tokens are stored.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// The characters of a code: none looks like another one.
const ALPHABET: &[u8] = b"ABCDEFGHJKMNPQRSTVWXYZ23456789";
/// The first character of the codes of requests. No other code begins with it.
const REQUEST_MARK: u8 = b'R';
const CODE_LEN: usize = 8;
/// The length of a selector, the first characters of a code: the database finds the row by them, and the others are compared. All
/// codes of requests begin with the same character, so with shorter selectors, the requests of one home network could use up all.
const SELECTOR_LEN: usize = 5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code(String);

impl Code {
    /// Parses what a person typed: case, spaces and hyphens do not matter.
    pub fn parse(text: &str) -> Option<Self> {
        let mut code = text.replace([' ', '-'], "");
        code.make_ascii_uppercase();
        (code.len() == CODE_LEN && code.bytes().all(|byte| ALPHABET.contains(&byte))).then_some(Self(code))
    }

    pub fn generate(random: &[u8], is_request: bool) -> Self {
        let digest: [u8; 32] = Sha256::digest(random).into();
        let count = u64::try_from(ALPHABET.len()).unwrap_or(1);
        let letters = digest.as_chunks::<4>().0.iter().map(|chunk| {
            let index = u64::from(u32::from_be_bytes(*chunk)) % count;
            usize::try_from(index).ok().and_then(|index| ALPHABET.get(index)).copied().unwrap_or(b'A')
        });
        let mut code: Vec<u8> = letters.collect();
        if let Some(first) = code.first_mut() {
            match (is_request, *first) {
                (true, _) => *first = REQUEST_MARK,
                (false, REQUEST_MARK) => *first = b'A',
                (false, _) => {}
            }
        }
        Self(code.into_iter().map(char::from).collect())
    }

    /// Whether a device that waits for an approval shows this code.
    pub fn is_request(&self) -> bool {
        self.0.as_bytes().first() == Some(&REQUEST_MARK)
    }

    pub fn selector(&self) -> &str {
        self.0.get(..SELECTOR_LEN).unwrap_or_default()
    }

    pub fn hash(&self) -> String {
        hash(&self.0)
    }
}

/// The form that people read and type: `ABCD-EFGH`.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second) = self.0.split_at_checked(CODE_LEN / 2).unwrap_or_default();
        write!(f, "{first}-{second}")
    }
}

/// Returns the hash under which a code, a secret or the token of a device is stored.
pub fn hash(text: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_in_any_case_and_with_any_separators() {
        for typed in ["ABCD-EFGH", "abcdefgh", " ab cd - EF gh "] {
            assert_eq!(Code::parse(typed).unwrap().to_string(), "ABCD-EFGH", "{typed}");
        }
        for invalid in
            ["", "ABCD-EFG", "ABCD-EFGHJ", "ABCD-EFGI", "ABCD-EFG0", "ABCD_EFGH", "ÄBCDEFG", "ABCD-EFG\u{131}"]
        {
            assert_eq!(Code::parse(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn codes_of_requests_begin_with_r_and_no_others_do() {
        for number in 0..2_000 {
            let [request, other] =
                [true, false].map(|is_request| Code::generate(number.to_string().as_bytes(), is_request));
            assert!(request.is_request() && !other.is_request(), "{request} {other}");
            for code in [request, other] {
                assert_eq!(Code::parse(&code.to_string()), Some(code));
            }
        }
    }

    #[test]
    fn requests_of_many_strangers_leave_room_for_another_one() {
        // As many as 133 addresses may send within the five minutes in which a code is valid.
        let codes = (0..20_000).map(|number: u32| Code::generate(&number.to_be_bytes(), true));
        let selectors: std::collections::HashSet<String> = codes.map(|code| code.selector().to_owned()).collect();
        assert!(selectors.len() > 19_000, "{}", selectors.len());
    }
}
