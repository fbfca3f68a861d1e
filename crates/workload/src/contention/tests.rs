//! Every load counts its operations exactly.

use super::*;
use std::thread;

/// Makes `workers` threads do `ticks` ticks each of every variant. Returns the count of the object and that
/// of the workers.
fn run(object: &dyn SharedObject, variants: usize, workers: usize, ticks: u64) -> (u64, u64) {
    let mut works = Vec::new();
    let mut servers = Vec::new();
    for member in object.members() {
        let Member::Thread(begin) = member else { unreachable!("this test drives threads") };
        let (send_order, orders) = std::sync::mpsc::channel::<(u64, u64)>();
        let (done, finished) = std::sync::mpsc::channel::<()>();
        let thread = thread::spawn(move || match begin() {
            Role::Worker(mut load) => {
                for (parameter, ticks) in orders {
                    load.prepare(parameter);
                    (0..ticks).for_each(|_| load.tick());
                    done.send(()).unwrap();
                }
            }
            Role::Server(serve) => {
                drop(done);
                serve();
            }
        });
        works.push((send_order, finished));
        servers.push(thread);
    }
    let mut counted = 0;
    for variant in 0..variants {
        let team = object.team(variant, workers);
        for &worker in &team.workers {
            works[worker].0.send((team.parameter, ticks)).unwrap();
        }
        for &worker in &team.workers {
            works[worker].1.recv().unwrap();
        }
        counted += team.workers.len() as u64 * ticks * object.per_tick();
    }
    drop(works);
    // What was put in last is taken out a moment later.
    while object.object_count().is_some_and(|own| own < counted) {
        thread::yield_now();
    }
    object.close();
    for thread in servers {
        thread.join().unwrap();
    }
    (object.object_count().unwrap_or(counted), counted)
}

#[test]
fn no_addition_is_lost() {
    let (own, counted) = run(&Counters::new(9), Counters::VARIANTS.len(), 9, 200);
    assert_eq!(own, counted);
}

#[test]
fn no_lock_admits_two_workers() {
    let (own, counted) = run(&Locks::new(4), Locks::VARIANTS.len(), 4, 500);
    assert_eq!(own, counted);
}

#[test]
fn every_value_put_in_is_taken_out() {
    let (own, counted) = run(&Queues::new(4), Queues::VARIANTS.len(), 4, 500);
    assert_eq!(own, counted);
}

#[test]
fn kernel_objects_exist_until_they_are_dropped() {
    let objects: [Box<dyn SharedObject>; 2] = match (SysvSemaphore::new(2), Messages::new(2)) {
        (Ok(semaphore), Ok(messages)) => [Box::new(semaphore), Box::new(messages)],
        _ => return eprintln!("SKIPPED: this kernel has no System V objects"),
    };
    let names: Vec<String> = objects.iter().flat_map(|object| object.kernel_objects()).collect();
    assert_eq!(names.len(), 3);
    drop(objects);
    assert!(names.iter().all(|name| !remove(name).unwrap()), "{names:?}");
}

#[test]
fn removing_an_object_ends_its_users() {
    let Ok(semaphore) = SysvSemaphore::new(1) else {
        return eprintln!("SKIPPED: this kernel has no System V objects");
    };
    let Member::Process { name, object } = semaphore.members().remove(0) else { unreachable!() };
    let Some(Ok(Role::Worker(mut load))) = open_role(name, &object) else { unreachable!() };
    load.tick();
    assert_eq!(load.error(), None);
    semaphore.close();
    load.tick();
    assert!(matches!(load.error(), Some(libc::EINVAL | libc::EIDRM)), "{:?}", load.error());
}

#[test]
fn messages_are_taken_and_a_pipe_answers() {
    let pipes = Pipes::new(1).unwrap();
    let mut objects: Vec<Box<dyn SharedObject>> = vec![Box::new(pipes)];
    match Messages::new(1) {
        Ok(messages) => objects.push(Box::new(messages)),
        Err(error) => eprintln!("SKIPPED: messages: {error}"),
    }
    for object in objects {
        let mut members = object.members().into_iter().map(|member| match member {
            Member::Process { name, object } => (name, object),
            Member::Thread(_) => unreachable!("these are processes"),
        });
        let (works, serves) = (members.next().unwrap(), members.next().unwrap());
        let answering = thread::spawn(move || match open_role(serves.0, &serves.1) {
            Some(Ok(Role::Server(serve))) => serve(),
            _ => unreachable!("it serves"),
        });
        let Some(Ok(Role::Worker(mut load))) = open_role(works.0, &works.1) else { unreachable!() };
        // Far more than the capacity of a queue or a pipe.
        (0..20_000).for_each(|_| load.tick());
        assert_eq!(load.error(), None);
        drop(load);
        object.close();
        answering.join().unwrap();
    }
}

#[test]
fn a_semaphore_is_held_by_one_worker_at_a_time() {
    let semaphores = Semaphores::new(2).unwrap();
    let object = semaphores.members().into_iter().find_map(|member| match member {
        Member::Process { name, object } => Some((name, object)),
        Member::Thread(_) => None,
    });
    let (name, object) = object.unwrap();
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let object = object.clone();
            thread::spawn(move || {
                let Some(Ok(Role::Worker(mut load))) = open_role(name, &object) else { unreachable!() };
                (0..2_000).for_each(|_| load.tick());
                load.error()
            })
        })
        .collect();
    assert!(workers.into_iter().all(|worker| worker.join().unwrap().is_none()));
}

#[test]
fn unknown_names_are_refused() {
    assert!(open_role("nothing", "").is_none());
    for name in ["pipe", "pipe-answer", "sem", "sem-sysv", "msg-send", "msg-take"] {
        assert!(open_role(name, "x").is_some_and(|part| part.is_err()), "{name}");
    }
    for object in ["", "sem", "sem:", "msg:x", "shm:1"] {
        assert!(remove(object).is_err(), "{object}");
    }
}
