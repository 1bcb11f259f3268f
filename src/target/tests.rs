use std::path::Path;

use super::fixture::Machine;
use super::map::{Mapped, block_device, directory};
use super::{CounterFile, Roots, Settings, mounts, resolve};
use crate::units::Bytes;

const BUSY: &str = "9 0 72 1 9 0 72 1 0 2 2";
const IDLE: &str = "0 0 0 0 0 0 0 0 0 0 0";

fn names(mapped: &Mapped) -> Vec<&str> {
    mapped.leaves.iter().map(|leaf| leaf.name.as_str()).collect()
}

fn device(mapped: &Mapped) -> &super::BlockDevice {
    mapped.device.as_ref().unwrap()
}

#[test]
fn a_partition_of_a_scsi_disk() {
    let m = Machine::new(
        "block pci0/host0/target0:0:0/0:0:0:0/block/sda 8:0
         block pci0/host0/target0:0:0/0:0:0:0/block/sda/sda1 8:1
         block pci0/host0/target0:0:0/0:0:0:0/block/sda/sda9 259:7
         sys/block/sda/device -> ../../../0:0:0:0
         sys/block/sda/device/vendor = ATA
         sys/block/sda/device/model = SAMSUNG MZ7LH960
         sys/block/sda/device/vpd_pg80 = no page
         sys/block/sda/device/wwid = naa.5002538e
         sys/block/sda/size = 2000
         sys/block/sda/sda9/size = 800
         sys/block/sda/diskseq = 4
         sys/block/sda/queue/scheduler = none [mq-deadline] kyber
         sys/block/sda/queue/nr_requests = 64
         sys/block/sda/queue/write_cache = write back
         sys/block/sda/queue/fua = 0
         sys/block/sda/queue/rotational = 0
         sys/block/sda/queue/io_timeout = 30000
         sys/block/sda/queue/logical_block_size = 512
         dev/disk/by-id/wwn-0x5002538e-part1 -> ../../sda9
         dev/disk/by-id/ata-SAMSUNG_MZ7LH960-part1 -> ../../sda9
         dev/disk/by-id/ata-SAMSUNG_MZ7LH960 -> ../../sda",
    );
    let first = block_device((8, 1), &m.roots);
    let ninth = block_device((259, 7), &m.roots);
    assert_eq!((names(&first), names(&ninth)), (vec!["sda"], vec!["sda"]));
    assert_eq!(first.leaves, ninth.leaves);
    let d = device(&ninth);
    assert_eq!((d.name.as_str(), d.number, d.partition_of.as_deref()), ("sda9", (259, 7), Some("sda")));
    assert_eq!(d.key(), ninth.leaves[0].key());
    assert_eq!(d.identity.model.as_deref(), Some("SAMSUNG MZ7LH960"));
    assert_eq!(d.identity.vendor.as_deref(), Some("ATA"));
    assert_eq!(d.identity.wwn.as_deref(), Some("naa.5002538e"));
    assert_eq!(d.identity.by_id.as_deref(), Some("ata-SAMSUNG_MZ7LH960-part1"));
    assert_eq!(d.identity.diskseq, Some(4));
    assert_eq!(
        d.settings,
        Settings {
            scheduler: Some("mq-deadline".into()),
            nr_requests: Some(64),
            write_cache: Some("write back".into()),
            fua: Some(false),
            rotational: Some(false),
            iostats: None,
            io_timeout: Some(30_000),
            logical_block_size: Some(Bytes::new(512)),
            physical_block_size: None,
            size: Some(Bytes::new(800 * 512)),
            read_only: false,
        }
    );
    assert_eq!(ninth.leaves[0].settings.size, Some(Bytes::new(2000 * 512)));
    assert_eq!(d.settings.volatile_cache(), Some(true));
}

#[test]
fn an_ebs_volume_on_nvme() {
    let m = Machine::new(
        "block pci0/nvme/nvme1/nvme1n1 259:3
         sys/block/nvme1n1/device -> ..
         sys/block/nvme1n1/device/model = Amazon Elastic Block Store
         sys/block/nvme1n1/device/serial = vol0fab2c5d00000001a
         sys/block/nvme1n1/device/device/vendor = 0x1d0f
         sys/block/nvme1n1/wwid = nvme.1d0f-766f6c
         sys/block/nvme1n1/queue/io_timeout = 4294967295
         dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0fab2c5d00000001a -> ../../nvme1n1
         dev/disk/by-id/nvme-nvme.1d0f-766f6c -> ../../nvme1n1",
    );
    let mapped = block_device((259, 3), &m.roots);
    let d = device(&mapped);
    assert_eq!(d.identity.volume_id.as_deref(), Some("vol-0fab2c5d00000001a"));
    assert_eq!(d.identity.serial.as_deref(), Some("vol0fab2c5d00000001a"));
    assert_eq!(d.identity.vendor.as_deref(), Some("0x1d0f"));
    assert_eq!(d.identity.by_id.as_deref(), Some("nvme-Amazon_Elastic_Block_Store_vol0fab2c5d00000001a"));
    assert_eq!(d.settings.io_timeout, Some(4_294_967_295));
    assert_eq!(names(&mapped), ["nvme1n1"]);
}

fn multipath(head: &str, listed: &str) -> Machine {
    Machine::new(&format!(
        "block virtual/nvme-subsystem/nvme-subsys0/nvme0n1 259:0
         hidden pci0/nvme/nvme0/nvme0c0n1
         hidden pci0/nvme/nvme3/nvme0c3n1
         hidden pci0/nvme/nvme4/nvme1c4n1
         sys/block/nvme0n1/stat = {head}
         sys/block/nvme0c0n1/stat = {BUSY}
         sys/block/nvme0c3n1/stat = {IDLE}
         sys/block/nvme1c4n1/stat = {BUSY}
         {listed}"
    ))
}

#[test]
fn the_hidden_paths_of_a_multipath_device_count_where_it_does_not() {
    let listed = "sys/block/nvme0n1/multipath/nvme0c0n1 -> /sys/block/nvme0c0n1
                  sys/block/nvme0n1/multipath/nvme0c3n1 -> /sys/block/nvme0c3n1";
    for listed in ["", listed] {
        let m = multipath(IDLE, listed);
        let mapped = block_device((259, 0), &m.roots);
        assert_eq!(device(&mapped).name, "nvme0n1");
        assert_eq!(names(&mapped), ["nvme0c0n1", "nvme0c3n1"]);
        assert!(mapped.leaves.iter().all(|leaf| leaf.key() == "nvme0n1" && leaf.number == (0, 0)));
        assert_eq!(
            CounterFile::of(&mapped.leaves[0], &m.roots).unwrap().read().unwrap().writes.operations,
            9
        );

        let m = multipath(BUSY, listed);
        let mapped = block_device((259, 0), &m.roots);
        assert_eq!((names(&mapped), mapped.leaves[0].key()), (vec!["nvme0n1"], "nvme0n1"));
    }
}

#[test]
fn a_virtio_disk_and_its_cloud() {
    let text = "block pci0/virtio1/block/vda 254:0
                sys/block/vda/device -> ../..
                sys/block/vda/serial = bp1a2b3c
                sys/block/vda/stat = 75009 23259 4853330 32489 11763 40944 11976208 60681 0 13088 93693 4238 51 264328 463 1011 59";
    let m = Machine::new(text);
    let mapped = block_device((254, 0), &m.roots);
    assert_eq!(device(&mapped).identity.serial.as_deref(), Some("bp1a2b3c"));
    assert_eq!(device(&mapped).identity.volume_id, None);
    assert_eq!(
        CounterFile::of(device(&mapped), &m.roots).unwrap().read().unwrap().flushes.unwrap().operations,
        1011
    );

    let m = Machine::new(&format!("{text}\nsys/class/dmi/id/sys_vendor = Alibaba Cloud"));
    let mapped = block_device((254, 0), &m.roots);
    assert_eq!(device(&mapped).identity.volume_id.as_deref(), Some("d-bp1a2b3c"));
}

#[test]
fn a_logical_volume_on_raid_on_two_partitions() {
    let m = Machine::new(
        "block pci0/0:0:0:0/block/sda 8:0
         block pci0/0:0:0:0/block/sda/sda2 8:2
         block pci0/0:0:1:0/block/sdb 8:16
         block pci0/0:0:1:0/block/sdb/sdb2 8:18
         block virtual/block/md0 9:0
         sys/block/md0/slaves/sda2 -> /sys/class/block/sda2
         sys/block/md0/slaves/sdb2 -> /sys/class/block/sdb2
         block virtual/block/dm-3 253:3
         sys/block/dm-3/slaves/md0 -> /sys/class/block/md0
         sys/block/dm-3/dm/name = vg-pg",
    );
    let mapped = block_device((253, 3), &m.roots);
    assert_eq!(device(&mapped).name, "dm-3");
    assert_eq!(device(&mapped).identity.mapped_name.as_deref(), Some("vg-pg"));
    assert_eq!(names(&mapped), ["sda", "sdb"]);
    assert_eq!(names(&block_device((8, 2), &m.roots)), ["sda"]);
}

#[test]
fn devices_that_stand_on_each_other_end_somewhere() {
    let m = Machine::new(
        "block virtual/block/dm-0 253:0
         block virtual/block/dm-1 253:1
         sys/block/dm-0/slaves/dm-1 -> /sys/class/block/dm-1
         sys/block/dm-1/slaves/dm-0 -> /sys/class/block/dm-0",
    );
    assert_eq!(names(&block_device((253, 0), &m.roots)).len(), 1);
}

#[test]
fn xvda1_can_be_a_whole_disk_and_slashes_become_exclamation_marks() {
    let m = Machine::new(
        "block vbd-2049/block/xvda1 202:1
         block pci0/cciss!c0d0 104:0",
    );
    let mapped = block_device((202, 1), &m.roots);
    assert_eq!((names(&mapped), device(&mapped).partition_of.as_deref()), (vec!["xvda1"], None));
    assert_eq!(names(&block_device((104, 0), &m.roots)), ["cciss/c0d0"]);
}

#[test]
fn azure_names() {
    let scsi = |controller: &str, address: &str| {
        let m = Machine::new(&format!(
            "block vmbus/{controller}/host1/{address}/block/sdc 8:32
             sys/block/sdc/device -> ../../../{address}
             sys/block/sdc/device/vendor = Msft
             sys/block/sdc/device/model = Virtual Disk"
        ));
        device(&block_device((8, 32), &m.roots)).identity.volume_id.clone().unwrap()
    };
    assert_eq!(scsi("f8b3781b-1e82-4818-a1c3-63d806ec15bb", "1:0:0:3"), "lun3");
    assert_eq!(scsi("f8b3781a-1e82-4818-a1c3-63d806ec15bb", "0:0:0:0"), "os");
    assert_eq!(scsi("f8b3781a-1e82-4818-a1c3-63d806ec15bb", "0:0:0:1"), "resource");

    let nvme = |model: &str, nsid: u32| {
        let m = Machine::new(&format!(
            "block pci0/nvme/nvme0/nvme0n1 259:1
             sys/block/nvme0n1/nsid = {nsid}
             sys/block/nvme0n1/device -> ..
             sys/block/nvme0n1/device/model = {model}"
        ));
        device(&block_device((259, 1), &m.roots)).identity.volume_id.clone().unwrap()
    };
    assert_eq!(nvme("MSFT NVMe Accelerator v1.0", 1), "os");
    assert_eq!(nvme("MSFT NVMe Accelerator v1.0", 6), "lun4");
    assert_eq!(nvme("Microsoft NVMe Direct Disk v2", 1), "local");
}

#[test]
fn alibaba_google_and_tencent_names() {
    let identity = |text: &str, number| {
        let m = Machine::new(text);
        device(&block_device(number, &m.roots)).identity.volume_id.clone()
    };
    let alibaba = "block pci0/nvme/nvme0/nvme0n1 259:1
                   sys/block/nvme0n1/device -> ..
                   sys/block/nvme0n1/device/model = Alibaba Cloud Elastic Block Storage
                   sys/block/nvme0n1/device/serial = bp1xyz";
    assert_eq!(identity(alibaba, (259, 1)).as_deref(), Some("d-bp1xyz"));
    let google = "block pci0/0:0:1:0/block/sdb 8:16
                  sys/block/sdb/device -> ../../../0:0:1:0
                  sys/block/sdb/device/vendor = Google
                  sys/block/sdb/device/model = PersistentDisk
                  dev/disk/by-id/scsi-0Google_PersistentDisk_data-1 -> ../../sdb
                  dev/disk/by-id/google-data-1 -> ../../sdb";
    assert_eq!(identity(google, (8, 16)).as_deref(), Some("data-1"));
    let tencent = "block pci0/virtio2/block/vdb 254:16\nsys/block/vdb/serial = disk-abc123";
    assert_eq!(identity(tencent, (254, 16)).as_deref(), Some("disk-abc123"));
}

#[test]
fn btrfs_has_no_number_of_a_device_and_may_span_several() {
    let m = Machine::new(
        "block pci0/virtio1/block/vda 254:0
         block pci0/virtio2/block/vdb 254:16
         block pci0/virtio2/block/vdb/vdb1 254:17
         sys/fs/btrfs/features/x = 1
         sys/fs/btrfs/1234-abcd/devices/vda -> /sys/class/block/vda
         sys/fs/btrfs/1234-abcd/devices/vdb1 -> /sys/class/block/vdb1
         dev/vdb1 = a node
         dev/mapper/other -> ../vdb1",
    );
    for source in ["/dev/vdb1", "/dev/mapper/other"] {
        let text =
            format!("1 0 254:0 / / rw - ext4 /dev/vda rw\n2 1 0:40 /@sub /pool rw - btrfs {source} rw,ssd\n");
        let mapped = directory((0, 41), Path::new("/pool/x"), &mounts::parse(&text), &m.roots);
        assert_eq!(device(&mapped).name, "vdb1");
        assert_eq!(names(&mapped), ["vda", "vdb"]);
        assert_eq!(mapped.mount.unwrap().root, Path::new("/@sub"));
    }
}

#[test]
fn overlays_lead_to_the_disk_that_takes_their_writes() {
    let m = Machine::new("block pci0/virtio1/block/vda 254:0\nupper/\nramfs/");
    let root = m.path().canonicalize().unwrap();
    let text = format!(
        "1 0 254:0 / / rw - ext4 /dev/vda rw\n\
         2 1 0:30 / {root}/ramfs rw - tmpfs none rw\n\
         3 1 0:50 / /disk rw - overlay overlay rw,lowerdir=/l,upperdir={root}/upper,workdir=/w\n\
         4 1 0:51 / /memory rw - overlay overlay rw,lowerdir=/l,upperdir={root}/ramfs,workdir=/w\n\
         5 1 0:52 / /container rw - overlay overlay rw,upperdir=/no/such/directory\n\
         6 1 0:53 / /nfs rw - nfs4 server:/export rw\n\
         7 1 0:54 / /relative rw - overlay overlay rw,upperdir=src\n",
        root = root.display()
    );
    let mounts = mounts::parse(&text);
    let at = |minor, path: &str| directory((0, minor), Path::new(path), &mounts, &m.roots);
    let disk = at(50, "/disk/x");
    assert_eq!((names(&disk), &disk.memory_only), (vec!["vda"], &None));
    assert!(at(51, "/memory").memory_only.unwrap().contains("writes to memory"));
    assert!(at(30, &format!("{}/ramfs", root.display())).memory_only.unwrap().contains("tmpfs"));
    for (minor, path) in [(52, "/container"), (53, "/nfs"), (54, "/relative")] {
        let unknown = at(minor, path);
        assert_eq!((unknown.device.as_ref(), unknown.leaves.len(), &unknown.memory_only), (None, 0, &None));
        assert!(unknown.mount.is_some());
    }
    let nothing = directory((0, 99), Path::new("/x"), &[], &m.roots);
    assert_eq!(nothing, Mapped::default());
}

#[test]
fn a_mount_that_disagrees_with_the_device_is_not_believed() {
    let m = Machine::new("block pci0/virtio1/block/vda 254:0\nblock pci0/virtio2/block/vdb 254:16");
    let mounts = mounts::parse("1 0 254:0 / / rw - ext4 /dev/vda rw\n");
    let mapped = directory((254, 16), Path::new("/x"), &mounts, &m.roots);
    assert_eq!((names(&mapped), &mapped.mount), (vec!["vdb"], &None));
}

#[test]
fn the_root_of_this_machine() {
    let target = resolve(Path::new("/"), &Roots::default()).unwrap();
    assert!(target.mount.as_ref().is_none_or(|mount| mount.point == Path::new("/")));
    // In a container the disk may not be found; that is no error, but what is found must count.
    for leaf in &target.leaves {
        let before = CounterFile::of(leaf, &Roots::default()).unwrap().read().unwrap();
        assert!(leaf.path_of.is_some() || before.reads.operations > 0, "{leaf:?}");
    }
    assert_eq!(target.device.is_some(), !target.leaf_keys().is_empty());
}

#[test]
fn this_machine_s_shared_memory_is_memory() {
    let target = resolve(Path::new("/dev/shm/."), &Roots::default()).unwrap();
    assert!(target.memory_only.unwrap().contains("/dev/shm is tmpfs"));
    assert_eq!((target.path.as_path(), target.device), (Path::new("/dev/shm"), None));
}
