//! Edits of an XML text that leave every other byte unchanged and follow the style of the text.
#![allow(clippy::needless_pass_by_value, reason = "values are numbers and texts, owned and borrowed")]

use crate::domain::xml::DomainXml;
use manycore_text::xml::{Node, is_element};
use std::{collections::BTreeMap, ops::Range};

/// An element to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    text: String,
    children: Vec<Self>,
}

impl Element {
    /// Creates an empty element.
    pub fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    /// Adds an attribute.
    pub fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }

    /// Sets the text.
    pub fn text(self, text: impl ToString) -> Self {
        Self { text: text.to_string(), ..self }
    }

    /// Adds a child element.
    pub fn child(mut self, child: Self) -> Self {
        self.children.push(child);
        self
    }

    /// Adds child elements.
    pub fn children(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.children.extend(children);
        self
    }

    fn write(&self, style: &Style, indent: Option<&str>, out: &mut String) {
        let quote = style.quote;
        out.push_str(&format!("<{}", self.name));
        for (name, value) in &self.attributes {
            out.push_str(&format!(" {name}={quote}{}{quote}", escape(value)));
        }
        if self.children.is_empty() && self.text.is_empty() {
            out.push_str("/>");
            return;
        }
        out.push('>');
        out.push_str(&escape(&self.text));
        if !self.children.is_empty() {
            let deeper = indent.map(|indent| format!("{indent}{}", style.unit));
            for child in &self.children {
                style.line(deeper.as_deref(), out);
                child.write(style, deeper.as_deref(), out);
            }
            style.line(indent, out);
        }
        out.push_str(&format!("</{}>", self.name));
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&apos;"),
            '"' => out.push_str("&quot;"),
            letter => out.push(letter),
        }
    }
    out
}

/// Formatting style of a text.
#[derive(Clone, Debug)]
struct Style {
    newline: &'static str,
    /// One step of indentation.
    unit: String,
    quote: char,
}

impl Style {
    fn detect(xml: &DomainXml) -> Self {
        let root = xml.root();
        let newline = match xml.text.find('\n') {
            Some(at) if at > 0 && xml.text.as_bytes()[at - 1] == b'\r' => "\r\n",
            _ => "\n",
        };
        let first = root.first_element_child().and_then(|child| indent(xml, child.range().start));
        let outer = indent(xml, root.range().start).unwrap_or_default();
        let unit = first.and_then(|inner| inner.strip_prefix(outer)).filter(|unit| !unit.is_empty());
        let quote = root.attributes().next().and_then(|attribute| {
            xml.text.get(..attribute.range_value().start).and_then(|before| before.chars().next_back())
        });
        let quote = quote.filter(|quote| ['"', '\''].contains(quote)).unwrap_or('\'');
        Self { newline, unit: unit.unwrap_or("  ").to_owned(), quote }
    }

    /// Begins a new line, if the text has lines.
    fn line(&self, indent: Option<&str>, out: &mut String) {
        if let Some(indent) = indent {
            out.push_str(self.newline);
            out.push_str(indent);
        }
    }
}

/// Returns the white space between the start of the line and `at`; `None` if the line has other text before
/// `at`.
fn indent<'a>(xml: &DomainXml<'a>, at: usize) -> Option<&'a str> {
    let before = xml.slice(0..at);
    let line = before.trim_end_matches([' ', '\t']);
    let begins = matches!(line.chars().next_back(), None | Some('\n' | '\u{feff}'));
    begins.then(|| &before[line.len()..])
}

/// Edits of one text. They are applied together.
#[derive(Debug)]
pub struct Edits<'x, 'a> {
    xml: &'x DomainXml<'a>,
    style: Style,
    changes: Vec<(Range<usize>, String)>,
    /// Additions to elements right below the root, in the order of the first request.
    appended: Vec<Element>,
    /// Comments inside removed elements, by position.
    removed_comments: BTreeMap<usize, String>,
}

impl<'x, 'a> Edits<'x, 'a> {
    /// Creates an empty list of edits.
    pub fn new(xml: &'x DomainXml<'a>) -> Self {
        Self {
            xml,
            style: Style::detect(xml),
            changes: Vec::new(),
            appended: Vec::new(),
            removed_comments: BTreeMap::new(),
        }
    }

    /// Sets an attribute. An existing one keeps its position and quotes; a new one comes last.
    pub fn set(&mut self, node: Node<'_, 'a>, name: &str, value: impl ToString) {
        let value = value.to_string();
        match node.attribute_node(name) {
            Some(there) if there.value() == value => {}
            Some(there) => self.changes.push((there.range_value(), escape(&value))),
            None => {
                let last = node.attributes().map(|attribute| attribute.range().end).max();
                let at = last.unwrap_or_else(|| self.name_end(node));
                let quote = self.style.quote;
                self.changes.push((at..at, format!(" {name}={quote}{}{quote}", escape(&value))));
            }
        }
    }

    /// Removes an attribute with the white space before it.
    pub fn remove_attribute(&mut self, node: Node<'_, 'a>, name: &str) {
        let Some(there) = node.attribute_node(name) else { return };
        let range = there.range();
        let space = self.xml.slice(0..range.start);
        self.changes.push((space.trim_end().len()..range.end, String::new()));
    }

    /// Appends elements to the content of `parent`.
    pub fn append(&mut self, parent: Node<'_, 'a>, elements: &[Element]) {
        if elements.is_empty() {
            return;
        }
        let inside = || parent.children().filter(|node| !is_space(*node));
        if let Some(last) = inside().next_back() {
            let indent = inside().filter_map(|node| indent(self.xml, node.range().start)).next_back();
            let text = self.lines(elements, indent);
            self.changes.push((last.range().end..last.range().end, text));
            return;
        }
        let outer = self.indent_of(parent);
        let inner = outer.as_ref().map(|outer| format!("{outer}{}", self.style.unit));
        let mut text = self.lines(elements, inner.as_deref());
        self.style.line(outer.as_deref(), &mut text);
        let range = parent.range();
        let whole = self.xml.slice(range.clone());
        if let Some(tag) = whole.strip_suffix("/>") {
            let name = parent.tag_name().name();
            let tag = tag.trim_end();
            self.changes.push((range.start + tag.len()..range.end, format!(">{text}</{name}>")));
        } else {
            let end = range.start + whole.rfind("</").unwrap_or(whole.len());
            let start = parent.first_child().map_or(end, |space| space.range().start);
            self.changes.push((start..end, text));
        }
    }

    /// Appends elements to the element called `name` right below the root. Creates that element if it is
    /// missing.
    pub fn add(&mut self, name: &'static str, elements: Vec<Element>) {
        if elements.is_empty() {
            return;
        }
        match self.appended.iter_mut().find(|one| one.name == name) {
            Some(one) => one.children.extend(elements),
            None => self.appended.push(Element::new(name).children(elements)),
        }
    }

    /// Adds an element right below the root, which must not have one of that name.
    pub fn add_whole(&mut self, element: Element) {
        self.appended.push(element);
    }

    /// Adds elements after `sibling`, and after a comment that follows it in the same line.
    pub fn insert_after(&mut self, sibling: Node<'_, 'a>, elements: &[Element]) {
        let text = self.lines(elements, indent(self.xml, sibling.range().start));
        let mut last = sibling;
        for node in sibling.next_siblings().skip(1) {
            if node.is_comment() {
                last = node;
            } else if !is_space(node) || self.xml.slice(node.range()).contains('\n') {
                break;
            }
        }
        let at = last.range().end;
        self.changes.push((at..at, text));
    }

    /// Removes an element, with its whole lines if it stands alone in them.
    pub fn remove(&mut self, node: Node<'_, 'a>) {
        for comment in node.descendants().filter(Node::is_comment) {
            let range = comment.range();
            self.removed_comments.insert(range.start, self.xml.slice(range).to_owned());
        }
        let range = node.range();
        let start = match indent(self.xml, range.start) {
            Some(space) => {
                let line = self.xml.slice(0..range.start - space.len());
                line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line)).len()
            }
            None => range.start,
        };
        self.changes.push((start..range.end, String::new()));
    }

    /// Returns the comments inside removed elements, as they are written.
    pub fn removed_comments(&self) -> impl Iterator<Item = &str> {
        self.removed_comments.values().map(String::as_str)
    }

    /// Returns the text with all edits applied. Edits at the same position are applied in the order of the
    /// requests.
    pub fn apply(mut self) -> String {
        for element in std::mem::take(&mut self.appended) {
            let xml = self.xml;
            if let Some(there) = xml.at(&[element.name]) {
                self.append(there, &element.children);
            } else if let Some(before) = last_of(xml, preceding_elements(element.name)) {
                self.insert_after(before, &[element]);
            } else {
                self.append(xml.root(), &[element]);
            }
        }
        self.changes.sort_by_key(|(range, _)| (range.start, range.end));
        let mut out = String::with_capacity(self.xml.text.len() * 2);
        let mut done = 0;
        for (range, text) in &self.changes {
            // Edits within a removed part are dropped with it.
            if range.start < done {
                continue;
            }
            out.push_str(self.xml.slice(done..range.start));
            out.push_str(text);
            done = range.end;
        }
        out.push_str(self.xml.slice(done..self.xml.text.len()));
        out
    }

    fn lines(&self, elements: &[Element], indent: Option<&str>) -> String {
        let mut text = String::new();
        for element in elements {
            self.style.line(indent, &mut text);
            element.write(&self.style, indent, &mut text);
        }
        text
    }

    /// Returns the indentation of an element: `None` in a text without lines.
    fn indent_of(&self, node: Node<'_, 'a>) -> Option<String> {
        indent(self.xml, node.range().start).map(str::to_owned)
    }

    /// Returns the position after the name in a tag.
    fn name_end(&self, node: Node<'_, 'a>) -> usize {
        let range = node.range();
        let tag = self.xml.slice(range.clone());
        range.start + tag.find(|c: char| c.is_whitespace() || c == '/' || c == '>').unwrap_or(tag.len())
    }
}

fn is_space(node: Node) -> bool {
    node.is_text() && node.text().is_some_and(|text| text.trim().is_empty())
}

/// Elements that libvirt writes right before a given one. libvirt accepts any order; this keeps its usual
/// one.
fn preceding_elements(name: &str) -> &'static [&'static str] {
    match name {
        "cputune" | "numatune" => &["vcpu", "vcpus", "iothreads", "iothreadids", "cputune"],
        "cpu" => &["os", "features"],
        _ => &[],
    }
}

/// Returns the last element below the root with one of these names, in the order of the text.
fn last_of<'n, 'a>(xml: &'n DomainXml<'a>, names: &[&str]) -> Option<Node<'n, 'a>> {
    xml.root().children().rfind(|node| names.iter().any(|name| is_element(*node, name)))
}
