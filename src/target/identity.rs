//! Which disk it is, by what each bus and cloud lets a guest see without privilege.

use std::path::Path;

use super::Roots;
use super::device::text;
use crate::sys;

/// Which disk it is; `None` where the bus or the hypervisor does not say. For a partition all but `by_id` are
/// its disk's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Maker: SCSI vendor, or the PCI vendor id of an NVMe controller.
    pub vendor: Option<String>,
    /// Model, as the disk names itself.
    pub model: Option<String>,
    /// Serial number, as the disk names itself.
    pub serial: Option<String>,
    /// World-wide name.
    pub wwn: Option<String>,
    /// The name below `/dev/disk/by-id` that says most.
    pub by_id: Option<String>,
    /// What the owner of the cloud account knows it by: `vol-…` (AWS), `d-…` (Alibaba), `lun3`, `os`, `resource`
    /// or `local` (Azure), the disk's name (Google), `disk-…` (Tencent).
    pub volume_id: Option<String>,
    /// The name of a device-mapper device: `vg-lv`.
    pub mapped_name: Option<String>,
    /// The file behind a loop device.
    pub backing_file: Option<String>,
    /// A number that no other disk of this boot has had: it tells a new disk under an old name.
    pub diskseq: Option<u64>,
}

impl Identity {
    pub(super) fn read(name: &str, whole: &Path, roots: &Roots) -> Self {
        let device = whole.join("device");
        let first = |files: &[&str]| files.iter().find_map(|file| text(&whole.join(file)));
        let mut identity = Self {
            vendor: first(&["device/vendor", "device/device/vendor"]),
            model: first(&["device/model"]),
            serial: first(&["serial", "device/serial"]).or_else(|| unit_serial(&device)),
            wwn: first(&["wwid", "device/wwid"]),
            by_id: by_id(name, roots),
            volume_id: None,
            mapped_name: first(&["dm/name"]),
            backing_file: first(&["loop/backing_file"]),
            diskseq: first(&["diskseq"]).and_then(|t| t.parse().ok()),
        };
        identity.volume_id = volume_id(&identity, whole, roots);
        identity
    }
}

/// The unit serial number page of a SCSI disk: page code 0x80 and a length before the text.
fn unit_serial(device: &Path) -> Option<String> {
    let page = sys::read_bytes(&device.join("vpd_pg80")).ok()?;
    let [_, 0x80, high, low, rest @ ..] = page.as_slice() else { return None };
    let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
    let serial = String::from_utf8_lossy(&rest[..length]);
    let serial = serial.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!serial.is_empty()).then(|| serial.to_owned())
}

/// The link that says most to people: one with a model or a cloud's name in it before bare numbers.
fn by_id(name: &str, roots: &Roots) -> Option<String> {
    const NUMBERS: [&str; 8] =
        ["wwn-", "nvme-eui.", "nvme-uuid.", "nvme-nvme.", "scsi-3", "lvm-pv-uuid-", "dm-uuid-", "md-uuid-"];
    let list = roots.dev.join("disk/by-id");
    let node = Path::new(name).file_name()?;
    let links = sys::entries(&list).ok()?;
    links
        .iter()
        .filter(|link| sys::read_link(&list.join(link)).is_ok_and(|goal| goal.file_name() == Some(node)))
        .filter_map(|link| link.to_str())
        .min_by_key(|link| {
            let numbers = NUMBERS.iter().any(|prefix| link.starts_with(prefix));
            (!link.starts_with("google-"), numbers, link.len())
        })
        .map(str::to_owned)
}

fn volume_id(identity: &Identity, whole: &Path, roots: &Roots) -> Option<String> {
    let model = identity.model.as_deref().unwrap_or_default().replace('_', " ");
    let serial = identity.serial.as_deref();
    match (identity.vendor.as_deref().unwrap_or_default(), model.as_str()) {
        (_, "Amazon Elastic Block Store") => serial.and_then(ebs),
        ("Msft", "Virtual Disk") => azure_scsi(whole),
        (_, m) if m.starts_with("MSFT NVMe Accelerator") => azure_nvme(whole),
        (_, m) if m.starts_with("Microsoft NVMe Direct Disk") => Some("local".to_owned()),
        (_, "Alibaba Cloud Elastic Block Storage") => serial.map(alibaba),
        ("Google", _) => google(identity),
        (_, "nvme card-pd") => google(identity),
        (_, "") if serial.is_some_and(|s| s.starts_with("disk-")) => serial.map(str::to_owned),
        // A virtio disk says nothing of its maker; the machine does.
        (_, "") if maker(roots).as_deref() == Some("Alibaba Cloud") => serial.map(alibaba),
        _ => None,
    }
}

/// The serial number is the volume's id without its hyphen.
fn ebs(serial: &str) -> Option<String> {
    let digits = serial.strip_prefix("vol")?.trim_start_matches('-');
    let hexadecimal = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    hexadecimal.then(|| format!("vol-{digits}"))
}

/// The serial number is the disk's id without `d-`.
fn alibaba(serial: &str) -> String {
    if serial.starts_with("d-") { serial.to_owned() } else { format!("d-{serial}") }
}

fn google(identity: &Identity) -> Option<String> {
    let link = identity.by_id.as_deref().and_then(|link| link.strip_prefix("google-"));
    // The link of a partition ends in its number, the disk's name does not.
    let disk = link.map(|link| link.split_once("-part").map_or(link, |(disk, _)| disk));
    disk.or(identity.serial.as_deref()).map(str::to_owned)
}

/// The last part of the SCSI address is the number under which the disk was attached; the controller with the
/// operating system's disk and the temporary one has a device id of its own.
fn azure_scsi(whole: &Path) -> Option<String> {
    let device = sys::resolve_links(&whole.join("device")).ok()?;
    let lun = device.file_name()?.to_str()?.rsplit(':').next()?.parse::<u32>().ok()?;
    let own = device.components().any(|part| part.as_os_str().to_string_lossy().starts_with("f8b3781a-"));
    Some(match (own, lun) {
        (true, 0) => "os".to_owned(),
        (true, 1) => "resource".to_owned(),
        _ => format!("lun{lun}"),
    })
}

/// Namespace 1 is the operating system's disk; the data disks follow, by their numbers.
fn azure_nvme(whole: &Path) -> Option<String> {
    match text(&whole.join("nsid"))?.parse::<u32>().ok()? {
        1 => Some("os".to_owned()),
        nsid => nsid.checked_sub(2).map(|lun| format!("lun{lun}")),
    }
}

fn maker(roots: &Roots) -> Option<String> {
    text(&roots.sys.join("class/dmi/id/sys_vendor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_ids_from_serial_numbers() {
        assert_eq!(ebs("vol0123456789abcdef0").as_deref(), Some("vol-0123456789abcdef0"));
        assert_eq!(ebs("vol-0123456789abcdef0").as_deref(), Some("vol-0123456789abcdef0"));
        assert_eq!(ebs("AWS1234567890"), None);
        assert_eq!(alibaba("bp1abc"), "d-bp1abc");
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a fixture")]
    fn the_unit_serial_page_is_binary() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("vpd_pg80");
        assert_eq!(unit_serial(folder.path()), None);
        for (bytes, serial) in [
            (&b"\x00\x80\x00\x06 AB12 tail"[..], Some("AB12")),
            (b"\x00\x80\x00\xff AB12 ", Some("AB12")),
            (b"\x00\x83\x00\x04AB12", None),
            (b"\x00\x80\x00\x02  ", None),
        ] {
            std::fs::write(&page, bytes).unwrap();
            assert_eq!(unit_serial(folder.path()).as_deref(), serial, "{bytes:?}");
        }
    }
}
