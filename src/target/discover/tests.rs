use super::*;
use crate::target::fixture::Machine;

const DRIVERS: &str = "Character devices:\\n  1 mem\\n\\nBlock devices:\\n  1 ramdisk\\n  7 loop\\n  8 sd\\n  9 md\\n 11 sr\\n \
                       43 nbd\\n253 device-mapper\\n252 zram\\n254 virtblk\\n259 blkext\\n";

/// A machine with one partitioned SCSI disk, one virtio disk, NVMe, and one of each kind that is not picked.
const DISKS: &str = "
    block pci0/0:0:0:0/block/sda 8:0
    block pci0/0:0:0:0/block/sda/sda1 8:1
    block pci0/0:0:0:0/block/sda/sda2 8:2
    sys/block/sda/size = 2000
    block pci0/virtio1/block/vda 254:0
    sys/block/vda/size = 2000
    block pci0/nvme/nvme1/nvme1n1 259:3
    sys/block/nvme1n1/size = 2000
    hidden pci0/nvme/nvme1/nvme1c0n1
    dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0fab -> ../../nvme1n1
    dev/nvme1n1 = a node
    dev/sda = a node
    dev/vda = a node
    block virtual/block/loop0 7:0
    sys/block/loop0/loop/backing_file = /snaps/core.snap
    sys/block/loop0/size = 2000
    dev/loop0 = a node
    block virtual/block/loop1 7:1
    sys/block/loop1/size = 0
    block virtual/block/zram0 252:0
    sys/block/zram0/size = 2000
    dev/zram0 = a node
    block virtual/block/ram0 1:0
    sys/block/ram0/size = 8192
    dev/ram0 = a node
    block pci0/1:0:0:0/block/sr0 11:0
    sys/block/sr0/size = 2000
    dev/sr0 = a node
    block virtual/block/nbd0 43:0
    sys/block/nbd0/size = 2000
    dev/nbd0 = a node
";

fn machine(disks: &str, mounts: &str) -> Machine {
    let mounts: Vec<&str> = mounts.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = format!("proc/devices = {DRIVERS}\nproc/self/mountinfo = {}\n{disks}", mounts.join("\\n"));
    Machine::new(&text)
}

fn wishes(file_systems: &[FileSystem], block_devices: bool, include: &[Unusual]) -> Wishes {
    Wishes { file_systems: file_systems.to_vec(), block_devices, include: include.to_vec() }
}

fn usual() -> Wishes {
    wishes(FileSystem::USUAL, false, &[])
}

fn look(m: &Machine, wishes: &Wishes) -> Discovery {
    discover(wishes, &[], &[], &m.roots).unwrap()
}

/// The paths that were found; those in `/dev` without the machine's own root before them.
fn paths(m: &Machine, discovery: &Discovery) -> Vec<String> {
    let root = m.path().canonicalize().unwrap();
    let shown = |found: &Found| match found.path.strip_prefix(&root) {
        Ok(below) => format!("/{}", below.display()),
        Err(_) => found.path.display().to_string(),
    };
    let mut paths: Vec<String> = discovery.found.iter().map(shown).collect();
    paths.sort();
    paths
}

fn why<'a>(discovery: &'a Discovery, what: &str) -> &'a str {
    let found: Vec<_> = discovery.left_out.iter().filter(|left| left.what == what).collect();
    assert_eq!(found.len(), 1, "{what}: {discovery:?}");
    &found[0].why
}

#[test]
fn local_file_systems_are_found_and_nothing_else() {
    let m = machine(
        DISKS,
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw
         2 1 8:2 / /srv rw - xfs /dev/sda2 rw
         3 1 259:3 / /nvme rw - ext4 /dev/nvme1n1 rw
         4 1 254:0 / /boot/efi rw - vfat /dev/vda rw
         5 1 7:0 / /snap/core ro - squashfs /dev/loop0 ro
         6 1 0:20 / /proc rw - proc proc rw
         7 1 0:21 / /run rw - tmpfs tmpfs rw
         8 1 0:22 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w
         9 1 0:23 / /net rw - nfs4 server:/export rw
         10 1 0:24 / /smb rw - cifs //server/share rw
         11 1 0:25 / /ceph rw - ceph 10.0.0.1:6789:/ rw
         12 1 0:26 / /sshfs rw - fuse.sshfs me@host: rw
         13 1 252:0 / /compressed rw - ext4 /dev/zram0 rw
         14 1 1:0 / /ram rw - ext4 /dev/ram0 rw
         15 1 11:0 / /cd ro - iso9660 /dev/sr0 ro
         16 1 43:0 / /nbd rw - ext4 /dev/nbd0 rw",
    );
    let discovery = look(&m, &usual());
    assert_eq!(paths(&m, &discovery), ["/", "/nvme", "/srv"]);
    assert_eq!(discovery.found[0].leaves, ["sda"]);
    assert_eq!((discovery.found[1].kind, discovery.found[1].number), (Kind::Directory, (259, 3)));
    assert_eq!(why(&discovery, "/boot/efi"), "vfat is not asked for");
    assert_eq!(why(&discovery, "/snap/core"), "squashfs is not asked for");
    assert_eq!(why(&discovery, "/net"), "nfs4 is over the network; `include: [network]` asks for it");
    assert_eq!(why(&discovery, "/compressed"), "compressed memory; `include: [zram]` asks for it");
    assert_eq!(why(&discovery, "/ram"), "memory; `include: [ram]` asks for it");
    assert_eq!(why(&discovery, "/nbd"), "over the network; `include: [network]` asks for it");
    assert_eq!(why(&discovery, "4 mounts of fuse.sshfs, overlay, proc, tmpfs"), "no disk of their own");

    let everything = wishes(FileSystem::ALL, false, Unusual::ALL);
    let all = ["/", "/ceph", "/compressed", "/nbd", "/net", "/nvme", "/ram", "/smb", "/srv"];
    assert_eq!(paths(&m, &look(&m, &everything)), all);
    let only_xfs = wishes(&[FileSystem::Xfs], false, &[]);
    assert_eq!(paths(&m, &look(&m, &only_xfs)), ["/srv"]);
    assert_eq!(paths(&m, &look(&m, &wishes(&[], false, &[Unusual::Network]))), ["/ceph", "/net", "/smb"]);
}

#[test]
fn a_loop_device_is_known_wherever_the_list_of_drivers_is_not() {
    let m = machine(DISKS, "1 0 7:0 / /loop rw - ext4 /dev/loop0 rw\n2 0 252:0 / /z rw - xfs /dev/zram0 rw");
    let bare = Machine::new(
        "proc/self/mountinfo = 1 0 7:0 / /loop rw - ext4 /dev/loop0 rw\\n2 0 252:0 / /z rw - xfs /dev/zram0 rw
         block virtual/block/loop0 7:0
         sys/block/loop0/loop/backing_file = /disk.img
         block virtual/block/zram0 252:0
         sys/block/zram0/mm_stat = 0",
    );
    for m in [m, bare] {
        assert!(look(&m, &usual()).found.is_empty());
        assert_eq!(paths(&m, &look(&m, &wishes(FileSystem::USUAL, false, &[Unusual::Loop]))), ["/loop"]);
        assert_eq!(paths(&m, &look(&m, &wishes(FileSystem::USUAL, false, &[Unusual::Zram]))), ["/z"]);
    }
}

#[test]
fn what_stands_on_a_loop_device_is_one() {
    let m = machine(
        &format!(
            "{DISKS}
             block virtual/block/dm-0 253:0
             sys/block/dm-0/slaves/loop0 -> /sys/class/block/loop0
             sys/block/dm-0/size = 8
             block virtual/block/dm-1 253:1
             sys/block/dm-1/slaves/vda -> /sys/class/block/vda"
        ),
        "1 0 253:0 / /a rw - ext4 /dev/mapper/a rw\n2 0 253:1 / /b rw - ext4 /dev/mapper/b rw",
    );
    let discovery = look(&m, &usual());
    assert_eq!(paths(&m, &discovery), ["/b"]);
    assert_eq!(why(&discovery, "/a"), "a loop device; `include: [loop]` asks for it");
}

#[test]
fn of_several_mounts_the_one_that_an_operator_would_name() {
    let m = machine(
        DISKS,
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw
         2 1 8:1 /var/lib/x /x rw - ext4 /dev/sda1 rw
         3 1 259:3 / /a ro - ext4 /dev/nvme1n1 rw
         4 1 259:3 / /much/longer/path rw - ext4 /dev/nvme1n1 rw
         5 1 259:3 / /long/path rw - ext4 /dev/nvme1n1 rw
         6 1 8:2 / /hidden rw - xfs /dev/sda2 rw
         7 6 254:0 / /hidden rw - ext4 /dev/vda rw",
    );
    let discovery = look(&m, &usual());
    assert_eq!(paths(&m, &discovery), ["/", "/hidden", "/long/path"]);
    assert_eq!(discovery.found[1].number, (254, 0));
    assert_eq!(why(&discovery, "/x"), "what is at / too");
    assert_eq!(why(&discovery, "/much/longer/path, /a"), "what is at /long/path too");
    assert_eq!(why(&discovery, "/hidden"), "hidden by other mounts");
}

#[test]
fn subvolumes_are_one_file_system_over_all_its_disks() {
    let m = machine(
        &format!(
            "{DISKS}
             sys/fs/btrfs/1234-abcd/devices/vda -> /sys/class/block/vda
             sys/fs/btrfs/1234-abcd/devices/nvme1n1 -> /sys/class/block/nvme1n1"
        ),
        "1 0 0:40 /@ / rw - btrfs /dev/vda rw,subvol=/@
         2 1 0:40 /@home /home rw - btrfs /dev/vda rw,subvol=/@home
         3 1 0:40 / /top rw - btrfs /dev/vda rw,subvol=/",
    );
    let discovery = look(&m, &wishes(FileSystem::USUAL, true, &[]));
    assert_eq!(paths(&m, &discovery), ["/", "/dev/sda"]);
    assert_eq!(discovery.found[0].leaves, ["nvme1n1", "vda"]);
    assert_eq!(why(&discovery, "nvme1n1"), "mounted at /");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a fixture")]
fn in_a_container_files_are_mounts_too() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
    for name in ["hosts", "name"] {
        std::fs::write(at(name), "").unwrap();
    }
    std::fs::create_dir_all(at("deeper/volume")).unwrap();
    let mounts = format!(
        "1 0 0:50 / / rw - overlay overlay rw
         2 1 8:1 /docker/x/hosts {} rw - ext4 /dev/sda1 rw
         3 1 8:1 /volumes/a {} rw - ext4 /dev/sda1 rw
         4 1 8:2 /name {} rw - ext4 /dev/sda2 rw",
        at("hosts").display(),
        at("deeper/volume").display(),
        at("name").display(),
    );
    let m = machine(DISKS, &mounts);
    let discovery = look(&m, &usual());
    assert_eq!(discovery.found.iter().map(|f| &f.path).collect::<Vec<_>>(), [&at("deeper/volume")]);
    assert_eq!(why(&discovery, at("name").to_str().unwrap()), "no directory that can be named");
    // Below something remote nobody asks, and the shortest is taken for a directory.
    let m = machine(DISKS, &mounts.replacen("overlay overlay", "nfs4 server:/root", 1));
    assert_eq!(look(&m, &usual()).found[0].path, at("hosts"));
}

#[test]
fn read_only_mounts_and_lost_disks_count_only_where_they_were_found_before() {
    let mounts = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /srv rw - xfs /dev/sda2 rw\n3 1 259:3 / /n rw - ext4 /dev/nvme1n1 rw";
    let m = machine(DISKS, mounts);
    let before = look(&m, &usual()).found;
    assert_eq!(before.len(), 3);
    // An error made one read-only, one disk was torn out.
    let broken = mounts.replacen("/srv rw - xfs /dev/sda2 rw", "/srv rw - xfs /dev/sda2 ro", 1);
    let without =
        DISKS.replace("block pci0/nvme/nvme1/nvme1n1 259:3", "").replace("sys/block/nvme1n1/size = 2000", "");
    let m = machine(&without, &broken);
    let now = discover(&usual(), &[], &before, &m.roots).unwrap();
    assert_eq!(paths(&m, &now), ["/", "/n", "/srv"]);
    let anew = look(&m, &usual());
    assert_eq!(paths(&m, &anew), ["/"]);
    assert_eq!(why(&anew, "/srv"), "mounted read-only");
    assert!(why(&anew, "/n").starts_with("its device is not in sysfs"));
    // Another file system at the same place is looked at as a new one.
    let m = machine(DISKS, "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 254:0 / /srv ro - xfs /dev/vda ro");
    assert_eq!(paths(&m, &discover(&usual(), &[], &before, &m.roots).unwrap()), ["/"]);
    // A shorter path to what is known already changes nothing, until the known one goes.
    let also = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /srv rw - xfs /dev/sda2 rw\n3 1 8:2 / /s rw - xfs /dev/sda2 rw";
    let m = machine(DISKS, also);
    assert_eq!(paths(&m, &discover(&usual(), &[], &before, &m.roots).unwrap()), ["/", "/srv"]);
    let m = machine(DISKS, &also.replace("2 1 8:2 / /srv", "2 1 254:0 / /other"));
    assert_eq!(paths(&m, &discover(&usual(), &[], &before, &m.roots).unwrap()), ["/", "/other", "/s"]);
}

#[test]
fn what_was_found_stays_only_as_long_as_it_is_asked_for_and_nobody_new_takes_its_place() {
    let mounts = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /srv rw - xfs /dev/sda2 rw\n3 1 7:0 / /l rw - ext4 /dev/loop0 rw";
    let m = machine(DISKS, mounts);
    let with_loop = wishes(FileSystem::USUAL, false, &[Unusual::Loop]);
    let before = look(&m, &with_loop).found;
    let broken = machine(DISKS, &mounts.replace(" rw - ", " ro - "));
    let again = |wishes: &Wishes, taken: &[Taken<'_>]| {
        paths(&broken, &discover(wishes, taken, &before, &broken.roots).unwrap())
    };
    assert_eq!(again(&with_loop, &[]), ["/", "/l", "/srv"]);
    assert_eq!(again(&usual(), &[]), ["/", "/srv"]);
    assert_eq!(again(&wishes(&[FileSystem::Xfs], false, &[]), &[]), ["/srv"]);
    let named = |new| Taken { name: "a", path: Path::new("/srv/data"), new };
    assert_eq!(again(&usual(), &[named(true)]), ["/"]);
    // As where `/srv/data` was a mount of its own, which is gone.
    assert_eq!(again(&usual(), &[named(false)]), ["/", "/srv"]);
}

#[test]
fn what_the_config_names_is_not_found_again() {
    let m = machine(
        DISKS,
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw
         2 1 8:2 / /srv rw - xfs /dev/sda2 rw
         3 1 8:2 / /again rw - xfs /dev/sda2 rw",
    );
    let path = |path| Taken { name: "mine\n", path: Path::new(path), new: true };
    let everything = wishes(FileSystem::USUAL, true, &[]);
    let with = |taken: &[Taken<'_>]| discover(&everything, taken, &[], &m.roots).unwrap();
    assert_eq!(
        paths(&m, &with(&[])),
        ["/", "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0fab", "/dev/vda", "/srv"]
    );
    let data = with(&[path("/srv/pg/data")]);
    assert_eq!(paths(&m, &data)[..2], ["/", "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0fab"]);
    assert_eq!(why(&data, "/srv, /again"), "probed by the target `mine\\n`");
    let device = with(&[path("/dev/vda"), path("/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0fab")]);
    assert_eq!(paths(&m, &device), ["/", "/srv"]);
    assert_eq!(why(&device, "vda"), "on the same disk as the target `mine\\n`");
}

#[test]
fn block_devices_that_nobody_uses() {
    let m = machine(
        &format!(
            "{DISKS}
             block pci0/0:0:2:0/block/sdc 8:32
             block pci0/0:0:2:0/block/sdc/sdc1 8:33
             sys/block/sdc/size = 2000
             block pci0/0:0:3:0/block/sdd 8:48
             sys/block/sdd/size = 2000
             sys/block/sdd/holders/dm-4 -> /sys/class/block/dm-4
             block virtual/block/dm-4 253:4
             sys/block/dm-4/slaves/sdd -> /sys/class/block/sdd
             sys/block/dm-4/dm/name = vg-raw
             sys/block/dm-4/size = 100
             dev/mapper/vg-raw = a node
             block virtual/block/dm-5 253:5
             sys/block/dm-5/slaves/sdd -> /sys/class/block/sdd
             sys/block/dm-5/dm/name = vg-more
             sys/block/dm-5/size = 100
             dev/mapper/vg-more = a node
             block pci0/0:0:4:0/block/sde 8:64
             sys/block/sde/size = 0
             block pci0/0:0:5:0/block/sdf 8:80
             sys/block/sdf/size = 10
             block pci0/0:0:6:0/block/sdg 8:96
             sys/block/sdg/size = 10
             sys/block/sdg/device -> ../../../0:0:6:0
             sys/block/sdg/device/type = 5
             proc/swaps = Filename Type Size Used Priority\\n/dev/sdc1 partition 1 0 -2\\n"
        ),
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw",
    );
    let discovery = look(&m, &wishes(&[], true, &[]));
    let by_id = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0fab";
    assert_eq!(paths(&m, &discovery), [by_id, "/dev/mapper/vg-raw", "/dev/vda"]);
    assert_eq!(discovery.found[1].kind, Kind::BlockDevice);
    assert_eq!((discovery.found[1].number, &discovery.found[1].leaves), ((253, 4), &vec!["sdd".to_owned()]));
    assert_eq!(why(&discovery, "sda"), "sda1 is mounted at /");
    assert_eq!(why(&discovery, "sdc"), "sdc1 is swap space");
    assert_eq!(why(&discovery, "sdd"), "part of dm-4");
    assert!(why(&discovery, "dm-5").starts_with("on the same disk as "));
    assert_eq!(why(&discovery, "sde"), "no medium in it, or not set up");
    assert!(why(&discovery, "sdf").starts_with("there is no "));
    assert_eq!(why(&discovery, "sdg"), "optical; `include: [optical]` asks for it");
    assert_eq!(why(&discovery, "loop0"), "a loop device; `include: [loop]` asks for it");
    assert!(
        !discovery.left_out.iter().any(|left| left.what == "loop1" || left.what == "nvme1c0n1"),
        "{discovery:?}"
    );

    let all = paths(&m, &look(&m, &wishes(&[], true, Unusual::ALL)));
    for device in ["/dev/loop0", "/dev/zram0", "/dev/ram0", "/dev/sr0", "/dev/nbd0"] {
        assert!(all.iter().any(|path| path == device), "{device}: {all:?}");
    }
    // The second of two on one disk stays when it was the first that was found.
    let mut before = discovery.found.clone();
    before[1].path = m.roots.dev.join("mapper/vg-more");
    before[1].number = (253, 5);
    let again = discover(&wishes(&[], true, &[]), &[], &before, &m.roots).unwrap();
    assert_eq!(paths(&m, &again)[1], "/dev/mapper/vg-more");
}

#[test]
fn a_multipath_device_is_one_disk() {
    let m = machine(
        "block virtual/nvme-subsystem/nvme-subsys0/nvme0n1 259:0
         sys/block/nvme0n1/size = 10
         hidden pci0/nvme/nvme0/nvme0c0n1
         hidden pci0/nvme/nvme3/nvme0c3n1
         sys/block/nvme0n1/stat = 0 0 0 0 0 0 0 0 0 0 0
         sys/block/nvme0c0n1/stat = 9 0 72 1 9 0 72 1 0 2 2
         sys/block/nvme0c3n1/stat = 9 0 72 1 9 0 72 1 0 2 2
         dev/nvme0n1 = a node",
        "1 0 0:50 / / rw - overlay overlay rw",
    );
    let discovery = look(&m, &wishes(FileSystem::USUAL, true, &[]));
    assert_eq!(paths(&m, &discovery), ["/dev/nvme0n1"]);
    assert_eq!(discovery.found[0].leaves, ["nvme0n1"]);
}

#[test]
fn no_mounts_is_an_error_and_not_the_end_of_all_targets() {
    let m = Machine::new("proc/self/mountinfo = \\n\nsys/");
    assert_eq!(discover(&usual(), &[], &[], &m.roots), Err(Errno::ENODATA));
    let m = Machine::new("proc/");
    assert_eq!(discover(&usual(), &[], &[], &m.roots), Err(Errno::ENOENT));
}

#[test]
fn this_machine() {
    let roots = Roots::default();
    let discovery = discover(&wishes(FileSystem::ALL, true, &[]), &[], &[], &roots).unwrap();
    for found in &discovery.found {
        let target = crate::target::resolve(&found.path, &roots).unwrap();
        assert_eq!((target.kind, target.memory_only.as_ref()), (found.kind, None), "{found:?}");
        assert_eq!(target.leaf_keys(), found.leaves, "{found:?}");
    }
    let everything = discover(&wishes(FileSystem::ALL, true, Unusual::ALL), &[], &[], &roots).unwrap();
    assert!(everything.found.len() >= discovery.found.len());
}

mod any {
    use proptest::prelude::*;

    use super::*;

    fn line() -> impl Strategy<Value = String> {
        let disks = vec![
            ("8:1", "ext4"),
            ("8:2", "xfs"),
            ("254:0", "vfat"),
            ("7:0", "ext4"),
            ("0:40", "btrfs"),
            ("0:23", "nfs4"),
            ("0:24", "tmpfs"),
            ("0:25", "overlay"),
        ];
        let (disk, root) = (prop::sample::select(disks), prop_oneof![Just("/"), Just("/sub")]);
        (0..6u32, disk, root, "(/[ab]){1,3}|/", prop_oneof![Just("ro"), Just("rw")]).prop_map(
            |(parent, (device, kind), root, point, mode)| {
                format!("{parent} {device} {root} {point} {mode} - {kind} /dev/vda rw")
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn each_file_system_is_found_once_and_found_again(lines in prop::collection::vec(line(), 1..12)) {
            let lines: Vec<String> = lines.iter().enumerate().map(|(n, line)| format!("{} {line}", n + 1)).collect();
            let m = machine(DISKS, &lines.join("\n"));
            let everything = wishes(FileSystem::ALL, true, Unusual::ALL);
            let first = look(&m, &everything);
            let numbers: std::collections::BTreeSet<_> = first.found.iter().map(|f| f.number).collect();
            prop_assert_eq!(numbers.len(), first.found.len());
            let places: std::collections::BTreeSet<_> = first.found.iter().map(|f| &f.path).collect();
            prop_assert_eq!(places.len(), first.found.len());
            let again = discover(&everything, &[], &first.found, &m.roots).unwrap();
            prop_assert_eq!(&again.found, &first.found);
            // With all of them named, none is left to find.
            let taken: Vec<_> = first.found.iter().filter(|f| f.kind == Kind::Directory)
                .map(|f| Taken { name: "t", path: &f.path, new: true }).collect();
            let rest = discover(&everything, &taken, &[], &m.roots).unwrap();
            prop_assert!(rest.found.iter().all(|f| f.kind == Kind::BlockDevice), "{:?}", rest.found);
            for found in look(&m, &usual()).found {
                let is = |mount: &&Mount| mount.point == found.path && mount.device == found.number;
                let mounts = mounts::parse(&lines.join("\n"));
                prop_assert!(mounts.iter().filter(is).any(|mount| !mount.read_only() && mount.fstype != "tmpfs"));
                prop_assert!([(8, 1), (8, 2), (0, 40)].contains(&found.number));
            }
        }
    }
}
