//! Takes the symbol table out of a compiled artifact: it names functions for profilers, nobody reads it at run time,
//! and it is a tenth of the file.

use super::Result;

const HEADER: usize = 64;
const SECTION: usize = 64;
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;

/// The artifact without its symbols. It is an ELF file of 64 bits, little endian, whose section headers come last.
pub(crate) fn strip(artifact: &[u8]) -> Result<Vec<u8>> {
    let short = || "the artifact is cut off".to_owned();
    let bytes = |at: usize, length: usize| artifact.get(at..at + length).ok_or_else(short);
    let half = |at| Ok::<_, String>(u16::from_le_bytes(bytes(at, 2)?.try_into().map_err(|_| short())?));
    let word = |at| Ok::<_, String>(u32::from_le_bytes(bytes(at, 4)?.try_into().map_err(|_| short())?));
    let long = |at| {
        let long = u64::from_le_bytes(bytes(at, 8)?.try_into().map_err(|_| short())?);
        usize::try_from(long).map_err(|error| error.to_string())
    };
    if bytes(0, 6)? != b"\x7fELF\x02\x01" {
        return Err("the artifact is no ELF file of 64 bits, little endian".to_owned());
    }
    let (table, count, names) = (long(0x28)?, usize::from(half(0x3c)?), usize::from(half(0x3e)?));
    let header = |index: usize| table + index * SECTION;

    // Everything stays where it is up to the first section that goes; of what follows only the names are kept.
    let mut end = table;
    let mut kept = Vec::new();
    for index in 0..count {
        let kind = word(header(index) + 4)?;
        if kind == SYMTAB || (kind == STRTAB && index != names) {
            end = end.min(long(header(index) + 0x18)?);
        } else {
            kept.push(index);
        }
    }
    let mut out = bytes(0, end)?.to_vec();
    let mut headers = Vec::new();
    let mut new_names = 0;
    for index in kept {
        let mut section = bytes(header(index), SECTION)?.to_vec();
        let (offset, size) = (long(header(index) + 0x18)?, long(header(index) + 0x20)?);
        if index == names {
            new_names = headers.len() / SECTION;
            let place = (out.len() as u64).to_le_bytes();
            out.extend(bytes(offset, size)?);
            section.splice(0x18..0x20, place);
        } else if offset + size > end {
            return Err("the artifact has data behind its symbols".to_owned());
        }
        headers.extend(section);
    }
    out.resize(out.len().next_multiple_of(8), 0);
    let (place, number) = ((out.len() as u64).to_le_bytes(), (headers.len() / SECTION) as u16);
    out.splice(0x28..0x30, place);
    out.splice(0x3c..0x3e, number.to_le_bytes());
    out.splice(0x3e..HEADER, (new_names as u16).to_le_bytes());
    out.extend(headers);
    Ok(out)
}
