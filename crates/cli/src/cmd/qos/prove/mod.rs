//! `manycore qos prove`.

mod rivals;

use super::{files, ours, set::give_back, system};
use crate::{
    cli::{Format, QosProve},
    failure::{Failure, Outcome},
    folder::Folder,
    output,
    progress::Progress,
    source,
};
use manycore_analysis::limits::{LimitCheck, LimitProof, LimitShown};
use manycore_control::journal::{self, Journal};
use manycore_experiment::{
    Record,
    record::{Treatment, id},
};
use manycore_experiment::{
    engine::{Budget, Design, Rng, run as run_experiment},
    observe::Observer,
    opening,
};
use manycore_linux::resctrl::{domains::Places, state::State};
use manycore_linux::{
    clock,
    resctrl::{self, Files},
};
use manycore_qos::text;
use manycore_qos::write::{Refused, Writer};
use manycore_qos::{
    proof::{PROOF_SCHEMA, Proof, reach, usual_limit},
    told::{Told, tell},
    translate::{Refusal, Write, translate},
    wish::{Bandwidth, Wish},
};
use manycore_stats::verdict::parameter;
use manycore_topology::{CpuSet, Machine};
use rand::SeedableRng;
use rivals::{Ground, Rivals};
use std::{collections::BTreeMap, time::Duration};

/// Measures each check in groups of its own, which are removed before the next check.
///
/// # Errors
/// [`Failure::Check`] if a limit is not enforced, [`Failure::Missing`] if nothing could be shown,
/// [`Failure::Input`] for an invalid node, [`Failure::Interrupted`] after a signal.
pub fn run(args: &QosProve) -> Outcome {
    let system = system()?;
    let files = files(&system, &args.resctrl)?;
    let machine = source::live()?;
    let scene = Scene {
        args,
        state: files.state(&ours()),
        places: resctrl::places(&system),
        ground: Ground::of(&machine, args.node)?,
        files,
    };
    crate::signals::catch_interrupts()?;
    let mut kept = Kept::begin(args, machine)?;
    let shown = show_all(&scene, &mut kept);
    let saved = kept.save(matches!(shown, Err(Failure::Interrupted(_))), args.results.quiet);
    let proofs = shown?;
    output::print(&match args.results.format {
        Format::Text => text::proofs(&proofs, &scene.ground.words(), &scene.state.offer),
        Format::Json => {
            let json = serde_json::json!({
                "schema": PROOF_SCHEMA,
                "dialect": scene.state.offer.dialect,
                "node": scene.ground.node,
                "cpus": scene.ground.cpus,
                "proofs": proofs,
            });
            output::json(&json)?
        }
    })?;
    saved.and(verdict(&proofs))
}

/// The measurements so far, and the generator of random orders.
struct Kept {
    record: Record,
    folder: Folder,
    rng: Rng,
    began_ns: u64,
}

impl Kept {
    fn begin(args: &QosProve, machine: Machine) -> Outcome<Self> {
        let seed = args.seed.unwrap_or_else(clock::now_ns);
        let observer = Observer::new(&machine);
        Ok(Self {
            folder: Folder::make(args.results.out.clone(), args.results.force, "qos-prove")?,
            record: opening::open("qos prove", machine, seed, &observer),
            rng: Rng::seed_from_u64(seed),
            began_ns: clock::now_ns(),
        })
    }

    /// Saves the record, also that of an interrupted run. Leaves no directory if nothing was measured.
    fn save(self, interrupted: bool, quiet: bool) -> Outcome {
        if self.record.experiments.is_empty() {
            self.folder.give_up();
            return Ok(());
        }
        let seconds = (clock::now_ns() - self.began_ns) as f64 / 1e9;
        self.folder.keep("qos prove", Record { interrupted, seconds, ..self.record }, quiet).1
    }
}

fn show_all(scene: &Scene, kept: &mut Kept) -> Outcome<Vec<Proof>> {
    let args = scene.args;
    let checks = if args.checks.is_empty() { &LimitCheck::ALL[..] } else { &args.checks };
    let mut progress = Progress::new(args.seconds * checks.len() as f64, args.results.quiet);
    let mut proofs = Vec::new();
    for (index, &check) in checks.iter().enumerate() {
        let left = args.seconds * (checks.len() - index) as f64;
        progress.left(Duration::from_secs_f64(left));
        proofs.push(scene.show(check, left, &mut progress, kept)?);
    }
    progress.finish();
    Ok(proofs)
}

/// A check that was not measured, and why.
fn cannot(check: LimitCheck, why: String) -> Proof {
    Proof { measured: LimitProof::cannot(check, why), limits: Vec::new() }
}

fn verdict(proofs: &[Proof]) -> Outcome {
    let failed: Vec<&str> = proofs
        .iter()
        .filter(|proof| matches!(proof.measured.shown, LimitShown::Fails(_)))
        .map(|proof| proof.measured.check.name())
        .collect();
    match failed.as_slice() {
        [] if proofs.iter().any(|proof| proof.measured.shown == LimitShown::Holds) => Ok(()),
        [] => Err(Failure::missing("nothing could be shown here, for the reasons above")),
        failed => Err(Failure::Check(format!("{}: not enforced", failed.join(" and ")))),
    }
}

/// What all checks have in common.
struct Scene<'a> {
    args: &'a QosProve,
    files: Files,
    state: State,
    places: Places,
    ground: Ground,
}

impl Scene<'_> {
    /// Measures one check. `left` is the time in seconds until all checks are done.
    fn show(&self, check: LimitCheck, left: f64, progress: &mut Progress, kept: &mut Kept) -> Outcome<Proof> {
        if check.has_rivals() && self.ground.cpus.len() < 2 {
            return Ok(cannot(
                check,
                format!(
                    "this check needs a second CPU for competing processes, and {} has one",
                    self.ground.words()
                ),
            ));
        }
        let limit = self.args.bandwidth.or_else(|| usual_limit(&self.state.offer));
        // Where a rate has to be measured first, a request without a limit shows whether the control exists.
        if let Err(why) = self.translate(check, limit.unwrap_or(Bandwidth::Percent(100))) {
            return Ok(cannot(check, why));
        }
        progress.section(&format!("with {} and without", check.name()));
        let what = format!("qos prove {}", check.name());
        let journal = Journal::begin(&journal::folder(), "qos", &what, false).map_err(|error| {
            Failure::missing(format!("cannot write a journal: {error}; nothing was changed"))
        })?;
        let shown = self.measure(check, limit, &journal, kept, &mut |share| {
            progress.left(Duration::from_secs_f64(left - self.args.seconds * share));
        });
        let given_back = give_back(journal);
        let proof = shown?;
        given_back.map(|()| proof)
    }

    /// Returns the lines to write, or the reasons why the limits cannot be set.
    fn translate(&self, check: LimitCheck, bandwidth: Bandwidth) -> Result<Vec<Write>, String> {
        let (offer, ground) = (&self.state.offer, &self.ground);
        let cpus: CpuSet = ground.cpus.iter().copied().collect();
        let mut wish = Wish { on: reach(offer, &self.places, ground.node, &cpus), ..Wish::default() };
        match check {
            LimitCheck::Bandwidth => wish.bandwidth = Some(bandwidth),
            LimitCheck::Minimum => wish.min_bandwidth = Some(self.args.min_bandwidth),
            LimitCheck::Priority => wish.priority = Some(self.args.priority),
        }
        translate(&wish, offer, &self.places, &[])
            .map_err(|refusals| refusals.iter().map(Refusal::text).collect::<Vec<_>>().join("; "))
    }

    fn measure(
        &self,
        check: LimitCheck,
        limit: Option<Bandwidth>,
        journal: &Journal,
        kept: &mut Kept,
        watch: &mut dyn FnMut(f64),
    ) -> Outcome<Proof> {
        let mut rivals = Rivals::hire(&self.ground, check)?;
        let limit = match limit {
            None if check == LimitCheck::Bandwidth => {
                let tenth = rivals.rate_without()? / 10.0 / 1e6;
                Bandwidth::Megabytes(tenth.ceil().max(1.0) as u64)
            }
            limit => limit.unwrap_or(Bandwidth::Percent(100)),
        };
        let writes = match self.translate(check, limit) {
            Ok(writes) => writes,
            Err(why) => return Ok(cannot(check, why)),
        };
        let limits =
            self.place(journal, &writes, &rivals).map_err(|refused| Failure::missing(refused.to_string()))?;
        let treatment = |name: &&str| Treatment {
            name: (*name).to_owned(),
            workers: rivals.favoured(),
            ..Treatment::default()
        };
        let design = Design {
            id: format!("{}{}", id::QOS, check.name()),
            method: rivals.method(),
            unit: "bytes".to_owned(),
            parameters: BTreeMap::from([(parameter::MARGIN.to_owned(), self.args.equivalent.to_string())]),
            metrics: Vec::new(),
            treatments: check.treatments().iter().map(treatment).collect(),
            budget: Budget::seconds(self.args.seconds),
        };
        let (experiment, ending) =
            run_experiment(design, &mut rivals, &mut kept.rng, &mut |at| watch(at.share));
        let proof = Proof { measured: LimitProof::of(check, &experiment), limits };
        if !experiment.samples.is_empty() {
            kept.record.experiments.push(experiment);
        }
        ending.map(|()| proof)
    }

    /// Creates one group with the limits and one without, and moves the processes into them.
    fn place(&self, journal: &Journal, writes: &[Write], rivals: &Rivals) -> Result<Vec<Told>, Refused> {
        let hand = Writer::new(self.files.root(), journal);
        let id = journal.id();
        let names = ["with", "without"].map(|which| format!("manycore-{id}-{which}"));
        for name in &names {
            hand.make(name)?;
        }
        let before = self.files.schemata(&names[0]);
        for write in writes {
            hand.limit(&names[0], write, None)?;
        }
        let after = self.files.schemata(&names[0]);
        let homes = self.files.whereabouts();
        for (name, tids) in names.iter().zip(rivals.groups()) {
            for tid in tids {
                hand.assign(name, tid, homes.get(&tid).map_or("", String::as_str))?;
            }
        }
        Ok(writes
            .iter()
            .flat_map(|write| tell(write, Some(&before), Some(&after), &self.state.offer))
            .collect())
    }
}
