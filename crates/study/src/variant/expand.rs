//! The product of variants and parameters, and the names of its members.

use super::{Parameter, VariantError as Error, VariantText, parameter::is_name};
use crate::{compare::VariantSpec, format_command, life::HookKind};
use manycore_experiment::record::variant_label;
use manycore_text::{names::list, units::counted};
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of variants. More would spend the budget before there is any result.
pub const MAX_VARIANTS: usize = 64;

/// All variants, and what was left out of the product of the parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Expanded {
    /// At least two, and at most [`MAX_VARIANTS`].
    pub variants: Vec<VariantSpec>,
    /// Says which values of the parameters are measured, if there were too many.
    pub note: Option<String>,
}

/// Values of parameters by name.
type Values<'a> = BTreeMap<&'a str, String>;

/// Returns all variants: each text once for every combination of the parameters that it uses, named by their values.
/// What the texts do not say is as in `base`. A product of more than [`MAX_VARIANTS`] is pruned: the longest parameters
/// have fewer values, evenly spaced, the first and the last one among them.
///
/// # Errors
/// A text or a parameter is wrong, a parameter is unused or not given, or there are more than [`MAX_VARIANTS`] even with
/// two values of each parameter.
pub fn expand(
    texts: &[VariantText],
    parameters: &[Parameter],
    base: &VariantSpec,
) -> Result<Expanded, Error> {
    let used_of =
        |parameters| -> Vec<Vec<&Parameter>> { texts.iter().map(|text| used(text, parameters)).collect() };
    check_parameters(parameters, &used_of(parameters))?;
    let (parameters, note) = pruned(parameters, &used_of(parameters))?;
    let parameters = parameters.as_slice();
    let mut variants = Vec::new();
    for (index, (text, used)) in texts.iter().zip(&used_of(parameters)).enumerate() {
        for values in combinations(used) {
            let filled = if parameters.is_empty() { text.clone() } else { fill(text, &values)? };
            let name = name(texts, index, used, &values);
            let variant = VariantText { name, ..filled }.parse(base)?;
            let parameters = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            variants.push(VariantSpec { parameters, ..variant });
        }
    }
    check_names(&variants)?;
    if variants.len() > 1 { Ok(Expanded { variants, note }) } else { Err(Error::One) }
}

/// Returns the index of the variant with this name or label; names come first.
///
/// # Errors
/// There is none.
pub fn reference(variants: &[VariantSpec], wanted: &str) -> Result<usize, Error> {
    let by_name = variants.iter().position(|variant| variant.name.as_deref() == Some(wanted));
    let by_label = || (0..variants.len()).find(|&index| variant_label(index) == wanted);
    by_name.or_else(by_label).ok_or_else(|| {
        let title = |(index, variant): (usize, &VariantSpec)| {
            variant.name.clone().unwrap_or_else(|| variant_label(index))
        };
        let known: Vec<String> = variants.iter().enumerate().map(title).collect();
        Error::Reference { name: wanted.to_owned(), known: list(&known) }
    })
}

/// Returns the parameters that a text uses.
fn used<'a>(text: &VariantText, parameters: &'a [Parameter]) -> Vec<&'a Parameter> {
    let found: BTreeSet<&str> = text
        .command
        .iter()
        .chain([&text.items])
        .chain(HookKind::ALL.iter().filter_map(|kind| text.hooks.command(*kind)).flatten())
        .flat_map(|part| places(part))
        .filter(|place| !place.is_literal)
        .map(|place| place.name)
        .collect();
    parameters.iter().filter(|parameter| found.contains(parameter.name.as_str())).collect()
}

fn check_parameters(parameters: &[Parameter], used: &[Vec<&Parameter>]) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    for parameter in parameters {
        if !names.insert(&parameter.name) {
            return Err(Error::ParameterTwice(parameter.name.clone()));
        }
        if !used.iter().flatten().any(|used| used.name == parameter.name) {
            return Err(Error::Unused(parameter.name.clone()));
        }
    }
    Ok(())
}

/// Returns the parameters with so few values that at most [`MAX_VARIANTS`] are made of them, and a note if values are left
/// out. `used` has the parameters that each text uses.
fn pruned(
    parameters: &[Parameter],
    used: &[Vec<&Parameter>],
) -> Result<(Vec<Parameter>, Option<String>), Error> {
    let mut counts: BTreeMap<&str, u64> =
        parameters.iter().map(|parameter| (parameter.name.as_str(), parameter.count())).collect();
    let all = number_of_variants(used, &counts);
    if all <= MAX_VARIANTS as u64 {
        return Ok((parameters.to_vec(), None));
    }
    let product: Vec<String> =
        counts.iter().map(|(name, count)| format!("{name}: {}", counted(*count as usize, "value"))).collect();
    for count in counts.values_mut() {
        *count = (*count).min(MAX_VARIANTS as u64);
    }
    while number_of_variants(used, &counts) > MAX_VARIANTS as u64 {
        let longest = counts.values_mut().max().filter(|count| **count > 2);
        let Some(longest) = longest else {
            let product =
                if product.is_empty() { "all that are given".to_owned() } else { product.join(", ") };
            return Err(Error::TooMany { count: all, max: MAX_VARIANTS, product });
        };
        *longest -= 1;
    }
    let fewer: Vec<Parameter> =
        parameters.iter().map(|parameter| parameter.thinned(counts[parameter.name.as_str()])).collect();
    let kept: Vec<String> = fewer.iter().map(ToString::to_string).collect();
    let note = format!(
        "{all} variants ({}) are too many, so {} are measured: {}. For other values, give them as a list.",
        product.join(", "),
        number_of_variants(used, &counts),
        list(&kept),
    );
    Ok((fewer, Some(note)))
}

/// Returns the number of variants of texts that use these parameters with so many values.
fn number_of_variants(used: &[Vec<&Parameter>], counts: &BTreeMap<&str, u64>) -> u64 {
    let values = |parameter: &&Parameter| counts.get(parameter.name.as_str()).copied().unwrap_or(1);
    let of = |used: &Vec<&Parameter>| used.iter().map(values).fold(1, u64::saturating_mul);
    used.iter().map(of).fold(0, u64::saturating_add)
}

/// Returns every combination of the values of parameters; the last one changes fastest.
fn combinations<'a>(parameters: &[&'a Parameter]) -> Vec<Values<'a>> {
    let mut all = vec![Values::new()];
    for parameter in parameters {
        let values = parameter.values(MAX_VARIANTS);
        let with = |before: &Values<'a>, value: &String| {
            let mut values = before.clone();
            values.insert(&parameter.name, value.clone());
            values
        };
        all = all.iter().flat_map(|before| values.iter().map(move |value| with(before, value))).collect();
    }
    all
}

/// Returns the name of a variant: `threads=4`, with the name or the command before it where there are several texts.
fn name(texts: &[VariantText], index: usize, used: &[&Parameter], values: &Values) -> Option<String> {
    let text = &texts[index];
    if used.is_empty() {
        return text.name.clone();
    }
    let settings: Vec<String> = used
        .iter()
        .map(|parameter| {
            format!("{}={}", parameter.name, values.get(parameter.name.as_str()).map_or("", |value| value))
        })
        .collect();
    let settings = settings.join(" ");
    let own = text.name.clone().or_else(|| (texts.len() > 1).then(|| short(texts, index)));
    Some(own.map_or_else(|| settings.clone(), |own| format!("{own} {settings}")))
}

/// Returns what tells a text from the others: its items, its program, or its number.
fn short(texts: &[VariantText], index: usize) -> String {
    let items = |text: &VariantText| text.items.clone();
    let program = |text: &VariantText| format_command(&text.command[..text.command.len().min(1)]);
    let forms: [&dyn Fn(&VariantText) -> String; 2] = [&items, &program];
    let is_unique = |form: &&&dyn Fn(&VariantText) -> String| {
        let own = form(&texts[index]);
        // A parameter is named by its value, not by its place.
        !own.is_empty() && !own.contains('{') && texts.iter().filter(|text| form(text) == own).count() == 1
    };
    forms.iter().find(is_unique).map_or_else(|| format!("command {}", index + 1), |form| form(&texts[index]))
}

/// Checks that no name stands for two variants, by itself or as the label of another one.
fn check_names(variants: &[VariantSpec]) -> Result<(), Error> {
    for (index, name) in
        variants.iter().enumerate().filter_map(|(index, one)| Some((index, one.name.as_ref()?)))
    {
        let is_other = |(at, other): (usize, &VariantSpec)| {
            at != index
                && (other.name.as_ref() == Some(name) || other.name.is_none() && variant_label(at) == *name)
        };
        if variants.iter().enumerate().any(is_other) {
            return Err(Error::NameTwice(name.clone()));
        }
    }
    Ok(())
}

/// `{name}` in a text.
struct Place<'a> {
    /// From the first brace to behind the last one.
    range: std::ops::Range<usize>,
    name: &'a str,
    /// Whether it is `{{name}}`, which stands for the text `{name}`.
    is_literal: bool,
}

/// Finds `{name}`, but not `${name}`, which is a variable of a shell.
fn places(text: &str) -> Vec<Place<'_>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|at| from + at) {
        from = open + 1;
        let is_literal = text[from..].starts_with('{');
        let begin = from + usize::from(is_literal);
        let Some(end) = text[begin..].find('}').map(|at| begin + at) else { break };
        let name = &text[begin..end];
        let close = if is_literal { "}}" } else { "}" };
        if is_name(name) && text[end..].starts_with(close) && !text[..open].ends_with('$') {
            from = end + close.len();
            found.push(Place { range: open..from, name, is_literal });
        }
    }
    found
}

fn fill(text: &VariantText, values: &Values) -> Result<VariantText, Error> {
    let words =
        |words: &[String]| words.iter().map(|word| filled(word, values)).collect::<Result<_, Error>>();
    Ok(VariantText {
        name: text.name.clone(),
        command: words(&text.command)?,
        items: filled(&text.items, values)?,
        hooks: text.hooks.try_map(words)?,
    })
}

/// Replaces the parameters in a text.
fn filled(text: &str, values: &Values) -> Result<String, Error> {
    let (mut all, mut from) = (String::new(), 0);
    for place in places(text) {
        all.push_str(&text[from..place.range.start]);
        from = place.range.end;
        match values.get(place.name) {
            _ if place.is_literal => all.push_str(&format!("{{{}}}", place.name)),
            Some(value) => all.push_str(value),
            // The number of workers is filled in where the machine is known.
            None if place.name == "workers" => all.push_str("{workers}"),
            None => {
                return Err(Error::UnknownParameter { name: place.name.to_owned(), text: text.to_owned() });
            }
        }
    }
    all.push_str(&text[from..]);
    Ok(all)
}

#[cfg(test)]
mod tests;
