//! The harness itself, against the reference plugins alone: what is unknown in the other tests is catena.

use catena_tests::conf::{self, Stack};
use catena_tests::runtime::Pod;
use catena_tests::scripted;
use catena_tests::state::{self, Traces};
use catena_tests::vectors::{self, Case};
use catena_tests::world::World;

#[test]
fn a_world_is_empty_and_ends() {
    let world = World::without_catena();
    assert_eq!(world.processes(), Vec::<String>::new());
    assert!(world.files("/var/lib").is_empty());
    world.sh("sleep 1000 >/dev/null 2>&1 &");
    assert_eq!(world.processes(), ["sleep 1000"]);
}

#[test]
fn lists_alone_leave_what_is_known() {
    for conf in [conf::ptp(1, Stack::V4), conf::bridge_and_tuning(2, Stack::V4)] {
        let world = World::without_catena();
        let pod = Pod::new(&world, "pod");
        let before = Traces::of(&world, Some(&pod.netns));
        let result = pod.add_list(&conf);
        pod.check_list(&conf, &result);
        assert!(!state::defaults(&world, &pod.netns, conf::Family::V4).is_empty());
        pod.del_list(&conf, Some(&result));
        pod.del_list(&conf, None);
        pod.without_netns().del_list(&conf, Some(&result));
        let more: Vec<String> =
            Traces::of(&world, Some(&pod.netns)).0.difference(&before.0).cloned().collect();
        assert!(
            more.iter().all(|line| line.contains("br2")
                || line.ends_with("/lock")
                || line.contains("last_reserved_ip")),
            "{more:#?}"
        );
    }
}

#[test]
fn the_scripted_delegate_makes_a_link() {
    for stack in Stack::ALL {
        let world = World::without_catena();
        let pod = Pod::new(&world, "pod");
        let before = Traces::of(&world, Some(&pod.netns));
        let conf = scripted::veth("net", 1, stack, true);
        pod.add_list(&conf);
        for family in stack.families() {
            assert_eq!(
                state::defaults(&world, &pod.netns, *family),
                [state::via(&conf::gateway(1, *family), "eth0", family.metric())]
            );
        }
        pod.del_list(&conf, None);
        Traces::of(&world, Some(&pod.netns)).same_as(&before, "after DEL");
        assert_eq!(scripted::call_lines(&world), ["ADD net eth0", "DEL net eth0"]);
    }
}

#[test]
fn recorded_cases_alone() {
    for case in vectors::route_cases() {
        if !["ptp-v4", "bridge-v46-isGateway", "macvlan-v4"].contains(&case.id.as_str()) {
            continue;
        }
        let world = World::without_catena();
        Case::prepare(&world);
        let pod = Pod::new(&world, vectors::POD);
        let result = pod.add_list(&case.config);
        case.compare_result(&result);
        case.compare_kernel(&world);
    }
}
