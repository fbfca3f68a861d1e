use super::*;

fn text(command: &str, items: &str) -> VariantText {
    let command = crate::split_command(command).unwrap();
    VariantText { command, items: items.to_owned(), ..VariantText::default() }
}

fn all(texts: &[VariantText], parameters: &[&str]) -> Result<Vec<VariantSpec>, Error> {
    let parameters: Vec<Parameter> = parameters.iter().map(|text| text.parse().unwrap()).collect();
    expand(texts, &parameters, &VariantSpec::default()).map(|expanded| expanded.variants)
}

fn names(texts: &[VariantText], parameters: &[&str]) -> Vec<String> {
    all(texts, parameters).unwrap().into_iter().map(|one| one.name.unwrap_or_default()).collect()
}

fn refused(texts: &[VariantText], parameters: &[&str]) -> String {
    all(texts, parameters).unwrap_err().to_string()
}

#[test]
fn values_are_filled_in_wherever_they_are_used() {
    let made = all(
        &[text("sort --parallel={threads} f", "place={place},env:N={threads},workers={threads}")],
        &["threads=2,4", "place=close,spread"],
    )
    .unwrap();
    assert_eq!(made.len(), 4);
    let last = &made[3];
    assert_eq!(last.name.as_deref(), Some("threads=4 place=spread"));
    assert_eq!(last.command, ["sort", "--parallel=4", "f"]);
    assert_eq!((last.place.clone(), last.workers), (Some("spread".parse().unwrap()), Some(4)));
    assert_eq!(last.env, [("N".to_owned(), "4".to_owned())]);
}

#[test]
fn commands_around_runs_have_the_values_as_well() {
    let hooks = crate::life::Hooks {
        prepare: Some(vec!["rm".to_owned(), "f.{level}".to_owned()]),
        ..Default::default()
    };
    let made = all(&[VariantText { hooks, ..text("gzip f", "") }], &["level=1,2"]).unwrap();
    let prepare = |index: usize| made[index].hooks.prepare.clone().unwrap();
    assert_eq!((prepare(0)[1].as_str(), prepare(1)[1].as_str()), ("f.1", "f.2"));
}

#[test]
fn a_variant_is_multiplied_by_the_parameters_that_it_uses_only() {
    let texts = [text("gzip f", ""), text("xz -T{threads} f", "")];
    assert_eq!(names(&texts, &["threads=1,2"]), ["", "xz threads=1", "xz threads=2"]);
    let same = [text("xz -T{t} f", "close"), text("xz -T{t} f", "spread"), text("xz -{t} f", "")];
    assert_eq!(names(&same, &["t=1"]), ["close t=1", "spread t=1", "command 3 t=1"]);
    let named = VariantText { name: Some("fast".to_owned()), ..text("xz -{t} f", "") };
    assert_eq!(names(&[named], &["t=1,2"]), ["fast t=1", "fast t=2"]);
}

#[test]
fn too_many_variants_are_pruned_and_the_kept_values_are_named() {
    let pruned = |texts: &[VariantText], parameters: &[&str]| {
        let parameters: Vec<Parameter> = parameters.iter().map(|text| text.parse().unwrap()).collect();
        expand(texts, &parameters, &VariantSpec::default()).unwrap()
    };
    let made = pruned(&[text("x {a} {b}", "")], &["a=1..100", "b=1..100"]);
    assert_eq!(made.variants.len(), 64);
    assert_eq!(
        made.note.as_deref().unwrap(),
        "10000 variants (a: 100 values, b: 100 values) are too many, so 64 are measured: a=1,15,29,43,58,72,86,100 and \
         b=1,15,29,43,58,72,86,100. For other values, give them as a list."
    );
    let huge = pruned(&[text("x {a} {b}", ""), text("y", "")], &["a=1..9000000000000000000", "b=x,y"]);
    assert!(huge.variants.len() == 63 && huge.note.unwrap().starts_with("18000000000000000001 variants"));
    assert_eq!(huge.variants[61].command, ["x", "9000000000000000000", "y"]);
    let short = pruned(&[text("x {a}", "")], &["a=1..64"]);
    assert!(short.note.is_none() && short.variants.len() == 64);
    assert_eq!(short.variants[63].parameters["a"], "64");
}

#[test]
fn too_many_variants_without_long_parameters_are_refused() {
    let many: Vec<VariantText> = (0..65).map(|number| text(&format!("x {number}"), "")).collect();
    assert!(refused(&many, &[]).starts_with("65 variants (all that are given) are too many"));
    let options = ["a", "b", "c", "d", "e", "f", "g"].map(|name| format!("{name}=on,off"));
    let options = options.each_ref().map(String::as_str);
    let said = refused(&[text("x {a} {b} {c} {d} {e} {f} {g}", "")], &options);
    assert!(said.starts_with("128 variants (a: 2 values, b: 2 values"), "{said}");
    assert!(said.ends_with("compare one parameter after the other"), "{said}");
}

#[test]
fn wrong_parameters_are_named() {
    assert!(refused(&[text("x {a}", "")], &["a=1,2", "b=1"]).contains("no variant uses {b}"));
    assert!(refused(&[text("x {a}", "")], &["a=1,2", "a=3"]).contains("a is given twice"));
    assert_eq!(
        refused(&[text("x {a} {c}", "")], &["a=1,2"]),
        "there is no --parameter 'c' for {c} in '{c}'; for the text itself, write {{c}}"
    );
    assert!(refused(&[text("x {a}", "")], &["a=1"]).starts_with("only one variant"));
}

#[test]
fn other_braces_stay_as_they_are() {
    let made = all(&[text("awk '{print $1}' ${HOME} {} {workers} {{x}} {a} {", "")], &["a=1,2"]).unwrap();
    assert_eq!(made[0].command[1..], ["{print $1}", "${HOME}", "{}", "{workers}", "{x}", "1", "{"]);
    let plain = all(&[text("find {x}", ""), text("find {y}", "")], &[]).unwrap();
    assert_eq!(plain[0].command[1], "{x}");
}

#[test]
fn the_reference_is_found_by_name_and_by_label() {
    let named = VariantText { name: Some("fast".to_owned()), ..text("b", "") };
    let made = all(&[text("a", ""), named.clone(), text("c", "")], &[]).unwrap();
    assert_eq!(["A", "B", "C", "fast"].map(|wanted| reference(&made, wanted).unwrap()), [0, 1, 2, 1]);
    let said = reference(&made, "slow").unwrap_err().to_string();
    assert_eq!(said, "no variant is called 'slow'; the variants are A, fast and C");
    assert!(refused(&[named.clone(), named], &[]).contains("two variants are called 'fast'"));
    let confusing = VariantText { name: Some("A".to_owned()), ..text("b", "") };
    assert!(refused(&[text("a", ""), confusing], &[]).contains("two variants are called 'A'"));
}
