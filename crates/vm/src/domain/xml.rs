//! The XML of a libvirt domain, with the positions of its elements and attributes.

use manycore_text::xml::{self, Document, Node, XmlError, child};
use std::ops::Range;

/// Reason why a text does not describe a domain that can be planned or checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DomainXmlError {
    /// It is not XML, or exceeds the limits of the XML reader.
    #[error(transparent)]
    Xml(#[from] XmlError),
    /// The outermost element is not a domain.
    #[error("its outermost element is <{0}>, expected <domain>, as virsh dumpxml prints it")]
    NotADomain(String),
    /// A domain that QEMU does not run.
    #[error("its domain is of type '{0}'; expected a QEMU domain: kvm, qemu, hvf or tcg")]
    Hypervisor(String),
    /// An invalid value.
    #[error("{what} is '{found}', expected {expected}")]
    Value {
        /// The element or attribute.
        what: String,
        /// The value found.
        found: String,
        /// The expected value.
        expected: &'static str,
    },
}

/// The text of a domain and its parsed elements.
#[derive(Debug)]
pub struct DomainXml<'a> {
    /// The text as it was given.
    pub text: &'a str,
    document: Document<'a>,
}

impl<'a> DomainXml<'a> {
    /// Parses the XML of a QEMU domain.
    ///
    /// # Errors
    /// [`DomainXmlError`] if the text is too large, not XML, or not a QEMU domain.
    pub fn parse(text: &'a str) -> Result<Self, DomainXmlError> {
        let xml = Self { text, document: xml::parse(text)? };
        let root = xml.root();
        let kind = root.attribute("type").unwrap_or_default();
        match root.tag_name().name() {
            "domain" if ["kvm", "qemu", "hvf", "tcg"].contains(&kind) => Ok(xml),
            "domain" => Err(DomainXmlError::Hypervisor(kind.to_owned())),
            other => Err(DomainXmlError::NotADomain(other.to_owned())),
        }
    }

    /// Returns the outermost element.
    pub fn root(&self) -> Node<'_, 'a> {
        self.document.root_element()
    }

    /// Returns the element at a path below the root, such as `["cpu", "numa"]`: the first of each name.
    pub fn at(&self, path: &[&str]) -> Option<Node<'_, 'a>> {
        path.iter().try_fold(self.root(), |node, name| child(node, name))
    }

    /// Returns a part of the text.
    pub fn slice(&self, range: Range<usize>) -> &'a str {
        self.text.get(range).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn non_domains_are_named_in_errors() {
        for (text, message) in [
            ("", "it is not XML"),
            ("<network/>", "its outermost element is <network>"),
            ("<domain type='xen'/>", "its domain is of type 'xen'"),
            ("<domain type='lxc'/>", "its domain is of type 'lxc'"),
            ("<domain type='vmware'/>", "its domain is of type 'vmware'"),
            ("<domain/>", "its domain is of type ''"),
        ] {
            let error = DomainXml::parse(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn bom_crlf_and_utf_8_are_parsed() {
        let text = "\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n<domain type='kvm'>\r\n  <name>Ärger</name>\r\n</domain>\r\n";
        let xml = DomainXml::parse(text).unwrap();
        let name = xml.at(&["name"]).unwrap();
        assert_eq!((name.text(), xml.slice(name.range())), (Some("Ärger"), "<name>Ärger</name>"));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "(<|>|/|'|\"|=|!|-|\\[|\\]|a|domain|type|kvm|&|;|\\PC| ){0,60}") {
            let _ = DomainXml::parse(&text);
        }
    }
}
