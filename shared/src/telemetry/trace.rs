//! The trace that a request belongs to, as AWS X-Ray names it.

use std::fmt::Write as _;

/// Longest header that is passed on, in bytes. Lambda's has under 150.
const HEADER_MAX: usize = 256;

/// One trace: its id, and the header by which it is passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    id: String,
    header: String,
}

impl Trace {
    /// From a header, `Root=1-6789abcd-…;Parent=…;Sampled=0`. Fields other than these three are left out: they are
    /// for the service that they came from. `None` for what is none: it may come from anybody and goes into logs.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        if header.len() > HEADER_MAX {
            return None;
        }
        let field = |name: &str| header.split(';').find_map(|field| field.trim().strip_prefix(name)?.strip_prefix('='));
        let mut trace = Self::of_id(field("Root")?)?;
        if let Some(parent) = field("Parent").filter(|parent| is_hex(parent, 16)) {
            let _ = write!(trace.header, ";Parent={parent}");
        }
        if let Some(sampled) = field("Sampled").filter(|sampled| matches!(*sampled, "0" | "1")) {
            let _ = write!(trace.header, ";Sampled={sampled}");
        }
        Some(trace)
    }

    /// From an id alone, `1-<8 hexadecimal digits>-<24>`.
    #[must_use]
    pub fn of_id(id: &str) -> Option<Self> {
        let (epoch, random) = id.strip_prefix("1-")?.split_once('-')?;
        let valid = is_hex(epoch, 8) && is_hex(random, 24);
        valid.then(|| Self { id: id.to_owned(), header: format!("Root={id}") })
    }

    /// What logs and stored items have.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What is passed on with a message.
    #[must_use]
    pub fn header(&self) -> &str {
        &self.header
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "1-6789abcd-0123456789abcdef01234567";

    #[test]
    fn what_lambda_sends_is_read_and_passed_on() {
        let header = format!("Root={ID};Parent=0123456789abcdef;Sampled=0;Lineage=1:abc:0");
        let trace = Trace::parse(&header).unwrap();
        assert_eq!(trace.id(), ID);
        assert_eq!(trace.header(), format!("Root={ID};Parent=0123456789abcdef;Sampled=0"));
        assert_eq!(Trace::parse(trace.header()), Some(trace));
        let other = Trace::parse(&format!("Self=1-1-1;Sampled=1; Root={ID}")).unwrap();
        assert_eq!(other.header(), format!("Root={ID};Sampled=1"));
        assert_eq!(Trace::of_id(ID).unwrap().header(), format!("Root={ID}"));
    }

    #[test]
    fn anything_else_is_none() {
        let long = format!("Root={ID};{}", "x".repeat(HEADER_MAX));
        let quoted = format!("Root={}\"}}", &ID[..33]);
        for header in ["", ID, "Root=", "Root=1-6789abcd-xyz", "root=1", "Parent=0123456789abcdef", &long, &quoted] {
            assert_eq!(Trace::parse(header), None, "{header}");
        }
        let upper = ID.to_uppercase();
        for id in ["", "2-6789abcd-0123456789abcdef01234567", "1-6789abcd", &upper, &format!("{ID}0")] {
            assert_eq!(Trace::of_id(id), None, "{id}");
        }
        // The rest of a header is left out where it makes no sense.
        assert_eq!(Trace::parse(&format!("Root={ID};Parent=no;Sampled=?")), Trace::of_id(ID));
    }
}
