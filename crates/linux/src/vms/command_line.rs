//! Facts about a domain from its running emulator: the command line (`qemu-system-x86_64 -name
//! guest=NAME,...`, QEMU's `invocation` manual), the names of its threads, and the name of its control group.

/// Values from the command line of an emulator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EmulatorCommandLine {
    /// The domain's full name; absent if QEMU was started without one.
    pub name: Option<String>,
    /// Its `-uuid`.
    pub uuid: Option<String>,
    /// Number that libvirt assigned when it started the domain, from the directory of its files
    /// (`domain-3-web1`).
    pub id: Option<u32>,
}

impl EmulatorCommandLine {
    /// Parses a command line. Returns `None` if it is not a system emulator.
    pub fn parse(words: &[String]) -> Option<Self> {
        let program = words.first()?.rsplit('/').next()?;
        let is_emulator = program.starts_with("qemu-system-") || ["qemu-kvm", "kvm"].contains(&program);
        is_emulator.then(|| Self {
            name: option_value(words, "name").and_then(guest_name),
            uuid: option_value(words, "uuid").map(str::to_ascii_lowercase),
            id: words.iter().find_map(|word| folder_id(word)),
        })
    }
}

/// Returns the word after `-OPTION` or `--OPTION`.
fn option_value<'a>(words: &'a [String], option: &str) -> Option<&'a str> {
    let is_it = |word: &str| {
        word.strip_prefix('-').is_some_and(|rest| rest.strip_prefix('-').unwrap_or(rest) == option)
    };
    words.windows(2).find(|pair| is_it(&pair[0])).map(|pair| pair[1].as_str())
}

/// Returns the name in the value of `-name`: `NAME,process=x`, `debug-threads=on,guest=NAME`. A comma within
/// a name is doubled.
fn guest_name(value: &str) -> Option<String> {
    let mut parts = vec![String::new()];
    let mut letters = value.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == ',' && letters.next_if_eq(&',').is_none() {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    let named = parts.iter().find_map(|part| part.strip_prefix("guest=").map(str::to_owned));
    named.or_else(|| parts.into_iter().next().filter(|first| !first.contains('=') && !first.is_empty()))
}

/// Returns the number in `.../domain-3-web1/...`.
fn folder_id(word: &str) -> Option<u32> {
    let (_, rest) = word.split_once("/domain-")?;
    rest.split_once('-')?.0.parse().ok()
}

/// Returns the virtual CPU of a thread with that name: `CPU 3/KVM`, as QEMU names threads with
/// `debug-threads=on`.
pub fn vcpu_of_thread_name(thread: &str) -> Option<u32> {
    let (number, engine) = thread.strip_prefix("CPU ")?.split_once('/')?;
    ["KVM", "TCG", "HVF"].contains(&engine).then(|| number.parse().ok())?
}

/// Returns the name and number of the machine in a process's `/proc/PID/cgroup`, with cgroup v1 or v2 and any
/// manager: `/machine.slice/machine-qemu\x2d3\x2dweb1.scope/libvirt/emulator` and
/// `/machine/qemu-3-web1.libvirt-qemu/vcpu0` give `qemu-3-web1` and 3. libvirt drops characters from names
/// here, so only the number is exact.
pub(super) fn machine_of_cgroup(cgroup: &str) -> Option<(String, u32)> {
    // `4:cpu,cpuacct:/path`, `0::/path`; a path may contain colons.
    let paths = cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.flat_map(|path| path.split('/')).find_map(|part| {
        let name = match part.strip_suffix(".libvirt-qemu") {
            Some(name) => name.to_owned(),
            None => unescape(part.strip_suffix(".scope")?.strip_prefix("machine-")?),
        };
        let id = name.strip_prefix("qemu-")?.split_once('-')?.0.parse().ok()?;
        Some((name, id))
    })
}

/// Decodes characters that systemd escapes in unit names, such as `\x2d` (`systemd-escape(1)`).
fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, code)) = rest.split_once("\\x") {
        bytes.extend(before.bytes());
        match code.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &code[2..];
            }
            None => {
                bytes.extend(b"\\x");
                rest = code;
            }
        }
    }
    bytes.extend(rest.bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(line: &[&str]) -> Option<EmulatorCommandLine> {
        EmulatorCommandLine::parse(&line.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn full_domain_names_are_parsed() {
        for (value, name) in [
            ("guest=web1,debug-threads=on", Some("web1")),
            ("guest=web10,debug-threads=on", Some("web10")),
            ("debug-threads=on,guest=web", Some("web")),
            ("web,process=qemu:web", Some("web")),
            ("guest=a,,b,,,debug-threads=on", Some("a,b,")),
            ("guest=Größe 1 = 2,debug-threads=on", Some("Größe 1 = 2")),
            ("process=x", None),
            ("", None),
        ] {
            assert_eq!(guest_name(value).as_deref(), name, "{value}");
        }
    }

    #[test]
    fn only_emulators_of_machines_are_domains() {
        let uuid = "4DEA22B3-1d52-d8f3-2516-782e98ab3fa0";
        let file =
            "{\"qom-type\":\"secret\",\"file\":\"/var/lib/libvirt/qemu/domain-12-web1/master-key.aes\"}";
        let found =
            of(&["/usr/bin/qemu-system-aarch64", "-name", "guest=web1", "-object", file, "-uuid", uuid]);
        let wanted = EmulatorCommandLine {
            name: Some("web1".to_owned()),
            uuid: Some(uuid.to_ascii_lowercase()),
            id: Some(12),
        };
        assert_eq!(found, Some(wanted));
        assert_eq!(of(&["qemu-kvm", "--name", "a"]).unwrap().name.as_deref(), Some("a"));
        assert_eq!(of(&["qemu-system-x86_64"]), Some(EmulatorCommandLine::default()));
        for line in [&["grep", "-name", "guest=web1"][..], &["qemu-x86_64", "./a"], &["vi", "qemu-kvm"], &[]]
        {
            assert_eq!(of(line), None, "{line:?}");
        }
    }

    #[test]
    fn thread_names_are_parsed() {
        for (name, number) in [
            ("CPU 0/KVM", Some(0)),
            ("CPU 319/TCG", Some(319)),
            ("CPU x/KVM", None),
            ("IO mon_iothread", None),
        ] {
            assert_eq!(vcpu_of_thread_name(name), number, "{name}");
        }
    }

    #[test]
    fn machines_are_found_on_both_versions() {
        let of = |text| machine_of_cgroup(text).map(|(name, id)| format!("{name} {id}"));
        let unified = "0::/machine.slice/machine-qemu\\x2d3\\x2dweb1.scope/libvirt/emulator\n";
        assert_eq!(of(unified).as_deref(), Some("qemu-3-web1 3"));
        let first = "12:pids:/\n4:cpu,cpuacct:/machine/qemu-10-web:1.libvirt-qemu/vcpu0\n";
        assert_eq!(of(first).as_deref(), Some("qemu-10-web:1 10"));
        let odd = "0::/machine.slice/machine-qemu\\x2d3\\x2d\\xzz.scope";
        assert_eq!(of(odd).as_deref(), Some("qemu-3-\\xzz 3"));
        for none in [
            "0::/",
            "0::/user.slice/user-0.slice/session-1.scope",
            "0::/machine.slice/machine-lxc\\x2d3.scope",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn names_survive_their_escape(name in "[a-z ,=ü]{1,12}") {
            let value = format!("guest={},debug-threads=on", name.replace(',', ",,"));
            prop_assert_eq!(guest_name(&value), Some(name));
        }

        #[test]
        fn any_text_is_read(text in "\\PC{0,40}") {
            let _ = (machine_of_cgroup(&format!("0::/machine-{text}.scope")), guest_name(&text), vcpu_of_thread_name(&text));
        }
    }
}
