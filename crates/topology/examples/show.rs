//! Prints the topology of this machine, of a copied root folder or of a capture: `show [PATH]`.

use manycore_topology::{
    SysTree, read,
    topology_tree::{TopologyTree, TopologyUnit},
};
use std::{env, process::ExitCode};

fn main() -> ExitCode {
    let path = env::args().nth(1).unwrap_or_else(|| "/".to_owned());
    let machine = match SysTree::open(path.as_ref()).and_then(|tree| read(&tree)) {
        Ok(machine) => machine,
        Err(error) => {
            eprintln!("show: {error}");
            return ExitCode::from(2);
        }
    };
    let tree = TopologyTree::new(&machine);
    print(&tree.root, 0, &|unit| {
        let labels: Vec<String> = unit.parts.iter().map(|part| part.label(&machine)).collect();
        labels.join(", ")
    });
    ExitCode::SUCCESS
}

fn print(unit: &TopologyUnit, depth: usize, label: &dyn Fn(&TopologyUnit) -> String) {
    println!("{:indent$}{} CPUs {}", "", label(unit), unit.cpus, indent = 2 * depth);
    for child in &unit.children {
        print(child, depth + 1, label);
    }
}
