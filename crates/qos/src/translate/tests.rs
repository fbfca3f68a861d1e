use super::*;
use manycore_linux::resctrl::dialect::Info;
use proptest::prelude::*;

/// The capabilities of a machine with two sockets and a kernel of this dialect.
fn capabilities(dialect: Dialect, options: &[&str]) -> Capabilities {
    let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    let has = |option: &str| options.iter().any(|one| one == option);
    let mut info = BTreeMap::from([(
        "L3".to_owned(),
        Info { mask: Some(0xfffff), min_bits: Some(1), ..Info::default() },
    )]);
    let mut band = Info { minimum: Some(10), step: Some(10), ..Info::default() };
    let mut root = match dialect {
        Dialect::IntelRdt if has("cdp") => {
            "L3CODE:0=fffff;1=fffff\nL3DATA:0=fffff;1=fffff\nMB:0=100;1=100".to_owned()
        }
        Dialect::IntelRdt | Dialect::Mpam => "L3:0=fffff;1=fffff\nMB:0=100;1=100".to_owned(),
        Dialect::AmdPqos => "L3:0=fffff;1=fffff\nMB:0=2048;1=2048".to_owned(),
        Dialect::OpenEuler66 => {
            "L3:1=fffff;122=fffff\nMB:0=100;1=100\nMBMIN:0=0;1=0\nMBHDL:0=1;1=1\nMBPRI:0=3;1=3\n\
                                 L3PRI:1=0;122=0\nL3MAX:1=100;122=100\nL3MIN:1=0;122=0"
                .to_owned()
        }
        Dialect::OpenEuler510 => "L3:1=fffff;122=fffff\nMB:0=100;1=100".to_owned(),
    };
    if has("mbPrio") {
        root += "\nMBPRI:0=3;1=3";
    }
    match dialect {
        Dialect::AmdPqos => {
            band = Info { minimum: Some(0), step: Some(1), ..Info::default() };
            info.entry("L3".to_owned()).and_modify(|l3| l3.min_bits = Some(0));
        }
        Dialect::OpenEuler66 => band = Info { minimum: Some(1), step: Some(1), ..Info::default() },
        Dialect::OpenEuler510 => band = Info { minimum: Some(5), step: Some(2), ..Info::default() },
        _ => {}
    }
    info.insert("MB".to_owned(), band);
    for name in ["L3CODE", "L3DATA"] {
        info.insert(name.to_owned(), info["L3"].clone());
    }
    Capabilities::new(dialect, &options, &Schemata::parse(&root), &info)
}

fn domain_cpus() -> DomainCpus {
    let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
    DomainCpus {
        nodes: [(0, "0-3"), (1, "4-7")].map(|(node, list)| (node, cpus(list))).into(),
        caches: [((3, 0), "0-3"), ((3, 1), "4-7")].map(|(cache, list)| (cache, cpus(list))).into(),
    }
}

fn lines(request: &LimitRequest, capabilities: &Capabilities) -> Vec<String> {
    let writes = translate(request, capabilities, &domain_cpus(), &[]).unwrap();
    writes.iter().map(|write| write.line.to_string()).collect()
}

fn refused(request: &LimitRequest, capabilities: &Capabilities) -> String {
    let refusals = translate(request, capabilities, &domain_cpus(), &[]).unwrap_err();
    refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn bandwidth(text: &str) -> LimitRequest {
    LimitRequest { bandwidth: Some(text.parse().unwrap()), ..LimitRequest::default() }
}

fn cache(text: &str) -> LimitRequest {
    LimitRequest { caches: vec![text.parse().unwrap()], ..LimitRequest::default() }
}

#[test]
fn bandwidth_uses_the_units_of_each_kernel() {
    let intel = capabilities(Dialect::IntelRdt, &[]);
    assert_eq!(lines(&bandwidth("50%"), &intel), ["MB:0=50;1=50"]);
    assert!(refused(&bandwidth("2000MB/s"), &intel).contains("mba_MBps"));
    assert!(refused(&bandwidth("5%"), &intel).contains("from 10 to 100"));
    let megabytes = capabilities(Dialect::IntelRdt, &["mba_MBps"]);
    assert_eq!(lines(&bandwidth("2000MB/s"), &megabytes), ["MB:0=2000;1=2000"]);
    assert_eq!(lines(&bandwidth("100%"), &megabytes), ["MB:0=4294967295;1=4294967295"]);
    assert!(refused(&bandwidth("50%"), &megabytes).contains("2000MB/s"));
    let amd = capabilities(Dialect::AmdPqos, &[]);
    assert_eq!(lines(&bandwidth("2000MB/s"), &amd), ["MB:0=16;1=16"]);
    assert_eq!(lines(&bandwidth("100%"), &amd), ["MB:0=2048;1=2048"]);
    assert!(refused(&bandwidth("50%"), &amd).contains("125 MB/s"));
    assert!(refused(&bandwidth("300GB/s"), &amd).contains("from 0 MB/s to 256000 MB/s"));
    let odd = translate(&bandwidth("1999MB/s"), &amd, &domain_cpus(), &[]).unwrap();
    assert_eq!(odd[0].note.as_deref(), Some("limits come in steps of 125 MB/s: 1875 MB/s"));
    assert_eq!(lines(&bandwidth("1%"), &capabilities(Dialect::OpenEuler66, &[])), ["MB:0=1;1=1"]);
    let raised =
        translate(&bandwidth("1%"), &capabilities(Dialect::OpenEuler510, &[]), &domain_cpus(), &[]).unwrap();
    assert_eq!(raised[0].expected[&0], 6, "the minimum is 5, in steps of 2");
}

#[test]
fn missing_controls_are_reported() {
    let request = LimitRequest {
        min_bandwidth: Some(10),
        hard_limit: Some(true),
        priority: Some(7),
        caches: vec!["l2=50%".parse().unwrap(), "l3code=1ways".parse().unwrap()],
        ..LimitRequest::default()
    };
    let refusals =
        translate(&request, &capabilities(Dialect::IntelRdt, &[]), &domain_cpus(), &[]).unwrap_err();
    assert_eq!(refusals.len(), 5);
    assert!(refusals.iter().all(|refusal| matches!(refusal, RequestError::Unsupported(_))));
    let text = refused(&request, &capabilities(Dialect::OpenEuler510, &["mbPrio"]));
    assert!(text.contains("mbMin") && text.contains("mbHdl") && !text.contains("priority"), "{text}");
    assert!(text.contains("cdpl3"), "{text}");
    let request = LimitRequest { caches: vec![], ..request };
    assert_eq!(
        lines(&request, &capabilities(Dialect::OpenEuler66, &[])),
        ["MBMIN:0=10;1=10", "MBHDL:0=1;1=1", "MBPRI:0=7;1=7"]
    );
    let request = LimitRequest { priority: Some(8), ..LimitRequest::default() };
    assert!(refused(&request, &capabilities(Dialect::OpenEuler66, &[])).contains("0 to 7"));
    let crossed = LimitRequest { min_bandwidth: Some(60), ..bandwidth("50%") };
    assert!(refused(&crossed, &capabilities(Dialect::OpenEuler66, &[])).contains("more than the maximum"));
}

#[test]
fn portions_become_masks() {
    let intel = capabilities(Dialect::IntelRdt, &[]);
    assert_eq!(lines(&cache("l3=50%"), &intel), ["L3:0=3ff;1=3ff"]);
    assert_eq!(lines(&cache("l3=1%"), &intel), ["L3:0=1;1=1"], "raised to one way");
    assert_eq!(lines(&cache("l3=0xff0"), &intel), ["L3:0=ff0;1=ff0"]);
    assert!(refused(&cache("l3=0x5"), &intel).contains("gaps"));
    assert!(refused(&cache("l3=0x100000"), &intel).contains("0xfffff"));
    assert!(refused(&cache("l3=0x0"), &intel).contains("at least 1"));
    assert!(refused(&cache("l3=21ways"), &intel).contains("20 ways"));
    assert!(refused(&cache("l3=0ways"), &intel).contains("the minimum is 1"));
    let amd = capabilities(Dialect::AmdPqos, &[]);
    assert_eq!(lines(&cache("l3=0x0"), &amd), ["L3:0=0;1=0"]);
    assert_eq!(lines(&cache("l3=0x5"), &amd), ["L3:0=5;1=5"]);
    let parted = capabilities(Dialect::IntelRdt, &["cdp"]);
    assert_eq!(lines(&cache("l3=2ways"), &parted), ["L3CODE:0=3;1=3", "L3DATA:0=3;1=3"]);
    assert_eq!(lines(&cache("l3data=2ways"), &parted), ["L3DATA:0=3;1=3"]);
}

#[test]
fn domains_are_nodes_or_caches() {
    let on = |text: &str, request: LimitRequest| LimitRequest { on: Some(text.parse().unwrap()), ..request };
    let intel = capabilities(Dialect::IntelRdt, &[]);
    assert_eq!(lines(&on("cache=1", bandwidth("50%")), &intel), ["MB:1=50"]);
    assert_eq!(lines(&on("node=1", bandwidth("50%")), &intel), ["MB:1=50"]);
    assert!(refused(&on("cache=9", bandwidth("50%")), &intel).contains("no L3 cache 9: there are 0-1"));
    assert!(refused(&on("node=9", bandwidth("50%")), &intel).contains("no node 9"));
    let euler = capabilities(Dialect::OpenEuler66, &[]);
    assert_eq!(lines(&on("node=1", bandwidth("50%")), &euler), ["MB:1=50"]);
    assert_eq!(lines(&on("cache=122", cache("l3=50%")), &euler), ["L3:122=3ff"]);
    let refusal = translate(&on("cache=122", bandwidth("50%")), &euler, &domain_cpus(), &[]).unwrap_err();
    assert_eq!(refusal, [RequestError::PerNode { line: "MB".to_owned() }]);
    let mut shared = domain_cpus();
    shared.caches = [((3, 0), "0-7".parse().unwrap())].into();
    let refusal = translate(&on("node=1", bandwidth("50%")), &intel, &shared, &[]).unwrap_err();
    let cpus = "0-7".parse().unwrap();
    assert_eq!(refusal, [RequestError::SharedCache { kind: "L3 cache", id: 0, cpus }]);
}

#[test]
fn masks_avoid_each_other() {
    let intel = capabilities(Dialect::IntelRdt, &[]);
    let (first, unlimited) = (Schemata::parse("L3:0=ff;1=fffff"), Schemata::parse("L3:0=fffff;1=fffff"));
    let writes = translate(&cache("l3=4ways"), &intel, &domain_cpus(), &[&first, &unlimited]).unwrap();
    assert_eq!(writes[0].line.to_string(), "L3:0=f00;1=f");
}

#[test]
fn two_portions_of_one_cache_are_refused() {
    let both = |first: &str, second: &str| LimitRequest {
        caches: [first, second].map(|text| text.parse().unwrap()).to_vec(),
        ..LimitRequest::default()
    };
    let (plain, parted) = (capabilities(Dialect::IntelRdt, &[]), capabilities(Dialect::IntelRdt, &["cdp"]));
    let refusal = refused(&both("l3=4ways", "l3=0xff00"), &plain);
    assert!(refusal.contains("cache l3=4ways and cache l3=0xff00 both set L3"), "{refusal}");
    assert!(refused(&both("l3=50%", "l3code=0x3"), &parted).contains("both set L3CODE"));
    assert_eq!(lines(&both("l3code=0x3", "l3data=0xc"), &parted), ["L3CODE:0=3;1=3", "L3DATA:0=c;1=c"]);
}

/// Checks that a value that is written is within the bounds of its control.
fn check_bounds(bounds: &ValueRange, value: u64, dialect: Dialect) -> Result<(), TestCaseError> {
    match *bounds {
        ValueRange::Number { minimum, maximum, .. } => {
            prop_assert!(value <= maximum && (value >= minimum || dialect == Dialect::OpenEuler510));
        }
        ValueRange::Mask { full, min_bits, sparse } => {
            prop_assert!(value & !full == 0 && value.count_ones() >= min_bits);
            prop_assert!(sparse || is_contiguous(value));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn written_values_are_valid(
        dialect in prop::sample::select(vec![
            Dialect::IntelRdt, Dialect::AmdPqos, Dialect::Mpam, Dialect::OpenEuler66, Dialect::OpenEuler510,
        ]),
        megabytes: bool,
        percent in 0u64..=100,
        rate in 1u64..300_000,
        ways in 0u32..25,
        mask: u32,
        which in 0..5,
        taken in prop::collection::vec(0u64..=0xfffff, 0..4),
    ) {
        let capabilities = capabilities(dialect, if megabytes && dialect == Dialect::IntelRdt { &["mba_MBps"] } else { &[] });
        let portion = |portion| LimitRequest { caches: vec![CacheRequest { level: 3, part: CacheContents::Both, portion }], ..LimitRequest::default() };
        let request = match which {
            0 => LimitRequest { bandwidth: Some(Bandwidth::Percent(percent)), ..LimitRequest::default() },
            1 => LimitRequest { bandwidth: Some(Bandwidth::Megabytes(rate)), ..LimitRequest::default() },
            2 => portion(CachePortion::Percent(percent)),
            3 => portion(CachePortion::Ways(ways)),
            _ => portion(CachePortion::Mask(u64::from(mask) & 0x1f_ffff)),
        };
        let others: Vec<Schemata> =
            taken.iter().map(|mask| Schemata::parse(&format!("L3:0={mask:x};1={mask:x}"))).collect();
        let others: Vec<&Schemata> = others.iter().collect();
        if let Ok(writes) = translate(&request, &capabilities, &domain_cpus(), &others) {
            for write in writes {
                let control = capabilities.control(&write.line.name).unwrap();
                for (domain, &value) in &write.line.values {
                    prop_assert!(control.domains.contains(domain));
                    // The rounded value is the expected one, and does not change when it is written again.
                    let in_force = control.bounds.rounded(value);
                    prop_assert_eq!(write.expected[domain], in_force);
                    prop_assert_eq!(control.bounds.rounded(in_force), in_force);
                    check_bounds(&control.bounds, value, dialect)?;
                    match control.bounds {
                        ValueRange::Number { .. } if which == 1 && dialect == Dialect::AmdPqos => {
                            prop_assert!(value * AMD_UNIT <= rate.max(AMD_UNIT), "never more than requested");
                        }
                        ValueRange::Mask { .. } if which == 3 => prop_assert_eq!(value.count_ones(), ways),
                        _ => {}
                    }
                }
            }
        }
    }
}
