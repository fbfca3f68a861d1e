//! XML of untrusted origin, parsed within fixed limits of size, depth, attributes and namespaces. The parsed
//! elements and attributes keep their positions in the text.

pub use roxmltree::{Document, Node};

use roxmltree::ParsingOptions;

/// Maximum size of the text, in bytes; a libvirt domain of 320 virtual CPUs and 40 devices has about 100 kB.
pub const MAX_BYTES: usize = 8 << 20;
/// Maximum number of nodes (elements, texts, comments); the same domain has about five thousand.
const MAX_NODES: u32 = 500_000;
/// Maximum depth of nesting; libvirt's own elements reach about ten, metadata may go further.
const MAX_DEPTH: usize = 256;
/// Maximum number of attributes of an element, since the parser compares each with all others; libvirt writes
/// at most a dozen.
const MAX_ATTRIBUTES: usize = 1000;
/// Maximum number of namespace declarations, since the parser copies all enclosing ones to each element that
/// declares one.
const MAX_NAMESPACES: usize = 1000;

/// Reason why a text is not parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// Longer than [`MAX_BYTES`].
    #[error("it has {0} bytes; at most {MAX_BYTES} are read")]
    TooLarge(usize),
    /// Not UTF-8, according to its first line or its bytes.
    #[error("its encoding is {0}; convert it to UTF-8 first: xmllint --encode UTF-8 FILE")]
    Encoding(String),
    /// Declares a document type, whose entities could grow without limit.
    #[error("it declares a document type (<!DOCTYPE>), which could define entities without limit: remove it")]
    Doctype,
    /// Exceeds one of the other limits.
    #[error("it has {0}; such documents are not read")]
    LimitExceeded(String),
    /// Not XML.
    #[error("it is not XML: {0}")]
    Malformed(String),
}

/// Parses a text within the limits above.
///
/// # Errors
/// [`XmlError`] if the text is too large or not XML.
pub fn parse(text: &str) -> Result<Document<'_>, XmlError> {
    if text.len() > MAX_BYTES {
        return Err(XmlError::TooLarge(text.len()));
    }
    check_encoding(text)?;
    check_tags(text)?;
    if text.matches("xmlns").nth(MAX_NAMESPACES).is_some() {
        return Err(XmlError::LimitExceeded(format!(
            "more than {MAX_NAMESPACES} declarations of namespaces"
        )));
    }
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).map_err(|error| match error {
        roxmltree::Error::DtdDetected => XmlError::Doctype,
        roxmltree::Error::NodesLimitReached => XmlError::LimitExceeded(format!("{MAX_NODES} nodes")),
        error => XmlError::Malformed(error.to_string()),
    })
}

/// Returns the bytes of a file as text.
///
/// # Errors
/// [`XmlError`] if it is too large or not UTF-8.
pub fn decode(bytes: &[u8]) -> Result<&str, XmlError> {
    if bytes.len() > MAX_BYTES {
        return Err(XmlError::TooLarge(bytes.len()));
    }
    let name = match bytes {
        [0xff, 0xfe, ..] | [b'<', 0, ..] => "UTF-16",
        [0xfe, 0xff, ..] | [0, b'<', ..] => "UTF-16 (big-endian)",
        _ => "not UTF-8",
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(XmlError::Encoding(name.to_owned())),
    }
}

/// Returns the first element of this name below `node`. Names in a namespace do not match.
pub fn child<'n, 'a>(node: Node<'n, 'a>, name: &str) -> Option<Node<'n, 'a>> {
    children(node, name).next()
}

/// Returns all elements of this name right below `node`.
pub fn children<'n, 'a: 'n>(node: Node<'n, 'a>, name: &str) -> impl Iterator<Item = Node<'n, 'a>> {
    node.children().filter(move |node| is_element(*node, name))
}

/// Returns whether a node is an element of this name without a namespace.
pub fn is_element(node: Node, name: &str) -> bool {
    node.is_element() && node.tag_name().name() == name && node.tag_name().namespace().is_none()
}

/// Returns the text of an element as `XPath`'s `string()` does, which libvirt uses: the concatenation of all
/// its texts, even if comments, CDATA sections or elements lie between them.
pub fn text_of(node: Node) -> String {
    node.descendants().filter(Node::is_text).filter_map(|part| part.text()).collect()
}

/// Parses a number in an attribute, decimal or with 0x.
pub fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok().filter(|_| digits(hex)),
        None => text.parse().ok().filter(|_| digits(text)),
    }
}

/// Returns the bytes of an amount of memory in an element of libvirt. The unit is in upper or lower case
/// (`virScaleInteger`): powers of 1024 for `K` and `KiB`, of 1000 for `KB`. KiB if it is empty.
pub fn bytes(amount: &str, unit: &str) -> Option<u64> {
    number(amount)?.checked_mul(scale(&unit.to_ascii_lowercase())?)
}

fn scale(unit: &str) -> Option<u64> {
    if ["b", "byte", "bytes"].contains(&unit) {
        return Some(1);
    }
    let mut letters = unit.chars();
    let Some(prefix) = letters.next() else { return Some(1 << 10) };
    let base: u64 = match letters.as_str() {
        "" | "ib" => 1024,
        "b" => 1000,
        _ => return None,
    };
    let power = "kmgtpe".find(prefix)?;
    base.checked_pow(power as u32 + 1)
}

/// Checks that the encoding in the XML declaration is the actual one.
fn check_encoding(text: &str) -> Result<(), XmlError> {
    let start = text.trim_start_matches('\u{feff}');
    let Some(declaration) = start.strip_prefix("<?xml").and_then(|rest| rest.split_once("?>")) else {
        return Ok(());
    };
    let Some((_, rest)) = declaration.0.split_once("encoding") else { return Ok(()) };
    let name = rest.trim_start().trim_start_matches('=').trim();
    let name = name.split(['"', '\'']).nth(1).unwrap_or_default();
    if ["utf-8", "utf8", "us-ascii", "ascii"].iter().any(|known| name.eq_ignore_ascii_case(known)) {
        Ok(())
    } else {
        Err(XmlError::Encoding(name.to_owned()))
    }
}

/// Checks the depth of nesting and the number of attributes before parsing, since the parser recurses and
/// compares attributes pair by pair. Skips comments, CDATA sections and declarations. The counts may be wrong
/// for text that is not XML, which the parser refuses anyway.
fn check_tags(text: &str) -> Result<(), XmlError> {
    let mut depth = 0_usize;
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        let end = if rest.starts_with("<!--") {
            rest.find("-->").map(|end| end + 3)
        } else if rest.starts_with("<![CDATA[") {
            rest.find("]]>").map(|end| end + 3)
        } else if rest.starts_with("<?") {
            rest.find("?>").map(|end| end + 2)
        } else {
            tag_end(rest)?
        };
        let Some(end) = end else { return Ok(()) };
        let tag = &rest[..end];
        if tag.starts_with("</") {
            depth = depth.saturating_sub(1);
        } else if !tag.starts_with("<!") && !tag.starts_with("<?") && !tag.ends_with("/>") {
            depth += 1;
        }
        if depth > MAX_DEPTH {
            return Err(XmlError::LimitExceeded(format!("elements more than {MAX_DEPTH} deep")));
        }
        rest = &rest[end..];
    }
    Ok(())
}

/// Returns the position after the `>` that ends a tag. Attribute values may contain a `>`.
fn tag_end(tag: &str) -> Result<Option<usize>, XmlError> {
    let (mut quote, mut attributes) = (None, 0);
    for (at, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Ok(Some(at + 1)),
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'=') if attributes == MAX_ATTRIBUTES => {
                return Err(XmlError::LimitExceeded(format!(
                    "an element of more than {MAX_ATTRIBUTES} attributes"
                )));
            }
            (None, b'=') => attributes += 1,
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn units_are_read_in_any_case_up_to_exbibytes() {
        for (unit, bytes) in [
            ("", 2 << 10),
            ("B", 2),
            ("Byte", 2),
            ("BYTES", 2),
            ("K", 2 << 10),
            ("kib", 2 << 10),
            ("kb", 2000),
            ("mB", 2_000_000),
            ("gIb", 2 << 30),
            ("t", 2 << 40),
            ("P", 2 << 50),
            ("PiB", 2 << 50),
            ("pb", 2_000_000_000_000_000),
            ("E", 2 << 60),
            ("eib", 2 << 60),
        ] {
            assert_eq!(super::bytes(" 2 ", unit), Some(bytes), "{unit}");
        }
        assert_eq!((bytes("99", "E"), bytes("-1", "")), (None, None));
        for bad in ["Ki", "KiBs", "Z", "bit", "ib", "é"] {
            assert_eq!(bytes("2", bad), None, "{bad}");
        }
    }

    #[test]
    fn malformed_text_and_other_encodings_are_named() {
        for (text, message) in [
            ("", "it is not XML"),
            ("<domain type='kvm'>", "it is not XML"),
            ("<domain type='kvm'><x:y/></domain>", "it is not XML"),
            ("<?xml version='1.0' encoding='ISO-8859-1'?><domain type='kvm'/>", "encoding is ISO-8859-1"),
        ] {
            assert!(error(text).contains(message), "{text}: {}", error(text));
        }
    }

    #[test]
    fn hostile_texts_are_refused_at_once() {
        let mut bomb = "<?xml version='1.0'?><!DOCTYPE d [<!ENTITY a0 'lol'>".to_owned();
        for level in 1..20 {
            let inner = format!("&a{};", level - 1).repeat(10);
            bomb.push_str(&format!("<!ENTITY a{level} '{inner}'>"));
        }
        bomb.push_str("]><domain type='kvm'><name>&a19;</name></domain>");
        assert_eq!(parse(&bomb).unwrap_err(), XmlError::Doctype);
        let external =
            "<!DOCTYPE d [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><domain type='kvm'>&x;</domain>";
        assert_eq!(parse(external).unwrap_err(), XmlError::Doctype);
        let deep = format!("<domain type='kvm'>{}", "<a>".repeat(1 << 20));
        assert!(error(&deep).contains("more than 256 deep"));
        let hidden = format!("<domain type='kvm'><!-- > -->{}", "<a b='/>'>".repeat(1 << 18));
        assert!(error(&hidden).contains("more than 256 deep"));
        let many = format!("<domain type='kvm'>{}</domain>", "<a/>".repeat(600_000));
        assert!(error(&many).contains("500000 nodes"));
        assert!(error(&"x".repeat(MAX_BYTES + 1)).contains("bytes"));
    }

    #[test]
    fn encodings_of_bytes_are_named() {
        let utf_16: Vec<u8> = "<domain/>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(decode(&utf_16).unwrap_err(), XmlError::Encoding("UTF-16".to_owned()));
        assert!(decode(b"<domain>\xe9</domain>").unwrap_err().to_string().contains("not UTF-8"));
        assert_eq!(decode("<ä/>".as_bytes()), Ok("<ä/>"));
    }

    #[test]
    fn numbers_are_parsed_as_libvirt_writes_them() {
        assert_eq!(
            ["7", "0x1f", " 0 ", "+1", "-1", "0x", "x"].map(number),
            [Some(7), Some(31), Some(0), None, None, None, None]
        );
    }

    #[test]
    fn a_comment_inside_a_text_does_not_end_it() {
        for (inside, whole) in [
            ("1<!-- x -->6", "16"),
            ("<!-- x -->16", "16"),
            ("1<?x?>6", "16"),
            ("<![CDATA[1]]>6", "16"),
            ("&#49;6", "16"),
            ("", ""),
        ] {
            let text = format!("<domain type='kvm'><vcpu>{inside}</vcpu></domain>");
            let document = parse(&text).unwrap();
            assert_eq!(text_of(child(document.root_element(), "vcpu").unwrap()), whole, "{inside}");
        }
    }

    #[test]
    fn an_element_with_too_many_attributes_is_refused_before_parsing() {
        let with = |count: usize| {
            let attributes = (0..count).map(|at| format!(" a{at}='= ='")).collect::<Vec<_>>().concat();
            format!("<domain type='kvm'><x{attributes}/></domain>")
        };
        assert!(parse(&with(MAX_ATTRIBUTES)).is_ok());
        assert!(error(&with(MAX_ATTRIBUTES + 1)).contains("an element of more than 1000 attributes"));
        let hidden = format!("<domain type='kvm'><!-- {} --></domain>", "a='' ".repeat(2000));
        assert!(parse(&hidden).is_ok());
    }

    #[test]
    fn too_many_namespaces_are_refused_before_parsing() {
        let with = |count: usize| format!("<domain type='kvm'>{}</domain>", "<a xmlns:b='c'/>".repeat(count));
        assert!(parse(&with(MAX_NAMESPACES)).is_ok());
        assert!(error(&with(MAX_NAMESPACES + 1)).contains("more than 1000 declarations of namespaces"));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "(<|>|/|'|\"|=|!|-|\\[|\\]|a|domain|type|kvm|&|;|\\PC| ){0,60}") {
            let _ = parse(&text);
        }
    }
}
