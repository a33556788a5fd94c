//! Which file system a data directory is on. SQLite's locks and shared memory need a local one.

use std::path::Path;

/// A file system that several machines may write to at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network(pub(crate) &'static str);

/// The network file system `path` is on, if it is on one.
pub(crate) fn network(path: &Path) -> std::io::Result<Option<Network>> {
    let facts = rustix::fs::statfs(path)?;
    Ok(classify(facts.f_type as u32))
}

/// By the magic numbers of `statfs(2)`.
fn classify(magic: u32) -> Option<Network> {
    Some(Network(match magic {
        0x6969 => "NFS",
        0x517B | 0xFE53_4D42 | 0xFF53_4D42 => "SMB",
        0x0102_1997 => "9P",
        0x00C3_6400 => "CephFS",
        0x5346_414F | 0x6B41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x564C => "NCP",
        0x013111A8 => "IBRIX",
        0x0BD0_0BD0 => "Lustre",
        0x1980_0202 => "FhGFS",
        0x7461_636F => "OCFS2",
        0x0116_1970 => "GFS2",
        0x4750_4653 => "GPFS",
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_told_from_local_ones() {
        let (ext4, xfs, btrfs, tmpfs, overlay, zfs) =
            (0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0x2FC1_2FC1);
        for magic in [ext4, xfs, btrfs, tmpfs, overlay, zfs] {
            assert_eq!(classify(magic), None, "{magic:x}");
        }
        assert_eq!(classify(0x6969), Some(Network("NFS")));
        assert_eq!(classify(0xFF53_4D42), Some(Network("SMB")));
        assert_eq!(network(&std::env::temp_dir()).unwrap(), None);
    }
}
