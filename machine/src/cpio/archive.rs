//! Writes small archives, for the tests of those who read them.

/// Appends one entry to an archive.
pub fn add(archive: &mut Vec<u8>, ino: u32, mode: u32, nlink: u32, name: &str, data: &[u8]) {
    let fields = [
        ino,
        mode,
        0,
        0,
        nlink,
        77,
        data.len() as u32,
        0,
        0,
        1,
        3,
        name.len() as u32 + 1,
        0,
    ];
    archive.extend_from_slice(b"070701");
    for field in fields {
        archive.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend_from_slice(data);
    archive.resize(archive.len().next_multiple_of(4), 0);
}

pub fn end(archive: &mut Vec<u8>) {
    add(archive, 0, 0, 1, "TRAILER!!!", b"");
    archive.resize(archive.len().next_multiple_of(512), 0);
}
