//! What the kernel asks: a head, and what is asked for.

use std::mem;

use super::{FSYNC_DATA, Malformed, attribute, opcode, write_flag};

/// Bytes of a head: `fuse_in_header`.
pub(in super::super) const HEAD_BYTES: usize = 40;

/// Bytes of a write before its data, the head counted: `fuse_write_in`.
pub(in super::super) const WRITE_HEAD_BYTES: usize = HEAD_BYTES + 40;

/// What each request begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Head {
    /// Bytes of the request, this head counted.
    pub(in super::super) len: u32,
    /// What is asked for.
    pub(in super::super) opcode: u32,
    /// What the kernel calls the request.
    pub(in super::super) unique: u64,
    /// The file, or the folder.
    pub(in super::super) node: u64,
    /// Who asks.
    pub(in super::super) uid: u32,
    pub(in super::super) gid: u32,
    /// The thread that asks; 0 of the kernel itself.
    pub(in super::super) thread: u32,
}

/// A time to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Time {
    Now,
    At { secs: i64, nanos: u32 },
}

/// What to set of a file; `None` stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Attributes {
    pub(in super::super) mode: Option<u32>,
    pub(in super::super) uid: Option<u32>,
    pub(in super::super) gid: Option<u32>,
    pub(in super::super) size: Option<u64>,
    pub(in super::super) atime: Option<Time>,
    pub(in super::super) mtime: Option<Time>,
}

/// A write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Write<'a> {
    pub(in super::super) offset: u64,
    pub(in super::super) data: &'a [u8],
    /// As open(2) had them.
    pub(in super::super) open_flags: i32,
    /// The kernel writes back what is mapped.
    pub(in super::super) is_written_back: bool,
    /// Privileges of the file go.
    pub(in super::super) takes_privileges: bool,
}

/// A copy from one file to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Copy {
    pub(in super::super) from_offset: u64,
    pub(in super::super) to: u64,
    pub(in super::super) to_offset: u64,
    pub(in super::super) len: u64,
}

/// Lookups of files, taken back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Forgets<'a>(&'a [[u8; 16]]);

impl Forgets<'_> {
    /// Node and lookups of each.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|forget| {
            let (node, lookups) = forget.split_at(8);
            let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("half of 16 bytes"));
            (number(node), number(lookups))
        })
    }
}

/// What is asked for. Names are never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget {
        lookups: u64,
    },
    ForgetAll(Forgets<'a>),
    GetAttributes,
    SetAttributes(Attributes),
    ReadLink,
    SymLink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MakeNode {
        name: &'a [u8],
        mode: u32,
        device: u32,
    },
    MakeFolder {
        name: &'a [u8],
        mode: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    RemoveFolder {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        new_parent: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    Link {
        node: u64,
        new_name: &'a [u8],
    },
    Create {
        name: &'a [u8],
        mode: u32,
    },
    /// A file without a name, open.
    CreateUnnamed {
        mode: u32,
    },
    Read {
        offset: u64,
        len: u32,
    },
    Write(Write<'a>),
    /// Of a file or of a folder.
    Sync {
        is_data_only: bool,
    },
    /// Of a file or of a folder.
    Release,
    Statistics,
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: i32,
    },
    GetXattr {
        name: &'a [u8],
        len: u32,
    },
    ListXattr {
        len: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    /// With attributes, or without.
    List {
        offset: u64,
        len: u32,
        is_plus: bool,
    },
    Allocate {
        offset: u64,
        len: u64,
        mode: i32,
    },
    Seek {
        offset: i64,
        whence: i32,
    },
    Copy(Copy),
    /// Who asked for something has no patience any more.
    Interrupt {
        unique: u64,
    },
    /// The end.
    Destroy,
    /// Anything that this program does not do.
    Other,
}

impl Head {
    /// Reads the head of a request, which is all of `bytes`.
    pub(in super::super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let head = Self::decode_alone(bytes)?;
        if head.len as usize == bytes.len() { Ok(head) } else { Err(Malformed) }
    }

    /// Reads a head whose request lies elsewhere.
    pub(in super::super) fn decode_alone(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::of(bytes);
        let head = Self {
            len: cursor.u32()?,
            opcode: cursor.u32()?,
            unique: cursor.u64()?,
            node: cursor.u64()?,
            uid: cursor.u32()?,
            gid: cursor.u32()?,
            thread: cursor.u32()?,
        };
        // Extensions, of which none was agreed on.
        cursor.u32()?;
        Ok(head)
    }
}

impl<'a> Operation<'a> {
    /// Reads what a request asks for that begins with a head of this `opcode`.
    pub(in super::super) fn decode(opcode: u32, request: &'a [u8]) -> Result<Self, Malformed> {
        Self::decode_parts(opcode, request.get(HEAD_BYTES..).ok_or(Malformed)?, &[])
    }

    /// Reads it where what has a fixed size and what has not, names and data, lie apart.
    pub(in super::super) fn decode_parts(
        opcode: u32,
        fixed: &'a [u8],
        rest: &'a [u8],
    ) -> Result<Self, Malformed> {
        let mut cursor = Cursor { now: fixed, then: rest };
        Ok(match opcode {
            opcode::LOOKUP => Self::Lookup { name: cursor.name()? },
            opcode::FORGET => Self::Forget { lookups: cursor.u64()? },
            opcode::BATCH_FORGET => {
                let count = cursor.u32()? as usize;
                cursor.skip(4)?;
                let (forgets, _) = cursor.rest().as_chunks();
                Self::ForgetAll(Forgets(forgets.get(..count).ok_or(Malformed)?))
            }
            opcode::GETATTR => Self::GetAttributes,
            opcode::SETATTR => Self::SetAttributes(cursor.attributes()?),
            opcode::READLINK => Self::ReadLink,
            opcode::SYMLINK => Self::SymLink { name: cursor.name()?, target: cursor.name()? },
            opcode::MKNOD => {
                let (mode, device) = (cursor.u32()?, cursor.u32()?);
                cursor.skip(8)?;
                Self::MakeNode { name: cursor.name()?, mode, device }
            }
            opcode::MKDIR => {
                let mode = cursor.u32()?;
                cursor.skip(4)?;
                Self::MakeFolder { name: cursor.name()?, mode }
            }
            opcode::UNLINK => Self::Unlink { name: cursor.name()? },
            opcode::RMDIR => Self::RemoveFolder { name: cursor.name()? },
            opcode::RENAME => {
                let new_parent = cursor.u64()?;
                Self::Rename { name: cursor.name()?, new_parent, new_name: cursor.name()?, flags: 0 }
            }
            opcode::RENAME2 => {
                let (new_parent, flags) = (cursor.u64()?, cursor.u32()?);
                cursor.skip(4)?;
                Self::Rename { name: cursor.name()?, new_parent, new_name: cursor.name()?, flags }
            }
            opcode::LINK => Self::Link { node: cursor.u64()?, new_name: cursor.name()? },
            opcode::CREATE => {
                let mode = cursor.new_file()?;
                Self::Create { name: cursor.name()?, mode }
            }
            // The kernel's own name for it follows, which means nothing.
            opcode::TMPFILE => Self::CreateUnnamed { mode: cursor.new_file()? },
            opcode::READ => {
                let (offset, len) = cursor.range()?;
                Self::Read { offset, len }
            }
            opcode::WRITE => Self::Write(cursor.write()?),
            opcode::FSYNC | opcode::FSYNCDIR => {
                cursor.skip(8)?;
                Self::Sync { is_data_only: cursor.u32()? & FSYNC_DATA != 0 }
            }
            opcode::RELEASE | opcode::RELEASEDIR => Self::Release,
            opcode::STATFS => Self::Statistics,
            opcode::SETXATTR => {
                let (len, flags) = (cursor.u32()? as usize, cursor.i32()?);
                let name = cursor.name()?;
                Self::SetXattr { name, value: cursor.rest().get(..len).ok_or(Malformed)?, flags }
            }
            opcode::GETXATTR => {
                let len = cursor.u32()?;
                cursor.skip(4)?;
                Self::GetXattr { name: cursor.name()?, len }
            }
            opcode::LISTXATTR => Self::ListXattr { len: cursor.u32()? },
            opcode::REMOVEXATTR => Self::RemoveXattr { name: cursor.name()? },
            opcode::READDIR | opcode::READDIRPLUS => {
                let (offset, len) = cursor.range()?;
                Self::List { offset, len, is_plus: opcode == opcode::READDIRPLUS }
            }
            opcode::FALLOCATE => {
                cursor.skip(8)?;
                Self::Allocate { offset: cursor.u64()?, len: cursor.u64()?, mode: cursor.i32()? }
            }
            opcode::LSEEK => {
                cursor.skip(8)?;
                Self::Seek { offset: cursor.i64()?, whence: cursor.i32()? }
            }
            opcode::COPY_FILE_RANGE => {
                cursor.skip(8)?;
                let (from_offset, to) = (cursor.u64()?, cursor.u64()?);
                cursor.skip(8)?;
                Self::Copy(Copy { from_offset, to, to_offset: cursor.u64()?, len: cursor.u64()? })
            }
            opcode::INTERRUPT => Self::Interrupt { unique: cursor.u64()? },
            opcode::DESTROY => Self::Destroy,
            _ => Self::Other,
        })
    }

    /// Whether the kernel may ask for it by itself, for nobody.
    pub(in super::super) fn is_of_kernel(&self) -> bool {
        matches!(
            self,
            Self::Destroy
                | Self::Interrupt { .. }
                | Self::Read { .. }
                | Self::List { .. }
                | Self::Forget { .. }
                | Self::ForgetAll(_)
                | Self::Write(_)
                | Self::Sync { .. }
                | Self::Release
        )
    }
}

/// What is not read yet. No field lies in both parts.
struct Cursor<'a> {
    now: &'a [u8],
    then: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        Self { now: bytes, then: &[] }
    }

    /// What is left of the part at hand: of the second one where the first is read.
    fn rest(&mut self) -> &'a [u8] {
        if self.now.is_empty() {
            self.now = mem::take(&mut self.then);
        }
        self.now
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest().split_first_chunk().ok_or(Malformed)?;
        self.now = rest;
        Ok(*taken)
    }

    fn skip(&mut self, len: usize) -> Result<(), Malformed> {
        self.now = self.rest().get(len..).ok_or(Malformed)?;
        Ok(())
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_ne_bytes)
    }

    fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_ne_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_ne_bytes)
    }

    fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_ne_bytes)
    }

    /// Bytes up to a zero, of which there is one.
    fn name(&mut self) -> Result<&'a [u8], Malformed> {
        let bytes = self.rest();
        let len = bytes.iter().position(|&byte| byte == 0).filter(|&len| len > 0).ok_or(Malformed)?;
        let (name, rest) = bytes.split_at(len);
        self.now = &rest[1..];
        Ok(name)
    }

    /// The mode of a `fuse_create_in`.
    fn new_file(&mut self) -> Result<u32, Malformed> {
        self.skip(4)?;
        let mode = self.u32()?;
        self.skip(8)?;
        Ok(mode)
    }

    /// Offset and length of a `fuse_read_in`.
    fn range(&mut self) -> Result<(u64, u32), Malformed> {
        self.skip(8)?;
        Ok((self.u64()?, self.u32()?))
    }

    /// A `fuse_write_in`, and its data.
    fn write(&mut self) -> Result<Write<'a>, Malformed> {
        let (offset, len) = self.range()?;
        let flags = self.u32()?;
        self.skip(8)?;
        let open_flags = self.i32()?;
        self.skip(4)?;
        Ok(Write {
            offset,
            data: self.rest().get(..len as usize).ok_or(Malformed)?,
            open_flags,
            is_written_back: flags & write_flag::CACHE != 0,
            takes_privileges: flags & write_flag::KILL_SUIDGID != 0,
        })
    }

    /// A `fuse_setattr_in`.
    fn attributes(&mut self) -> Result<Attributes, Malformed> {
        let valid = self.u32()?;
        self.skip(4 + 8)?;
        let size = self.u64()?;
        self.skip(8)?;
        let (atime, mtime, _) = (self.i64()?, self.i64()?, self.i64()?);
        let (atime_nanos, mtime_nanos, _) = (self.u32()?, self.u32()?, self.u32()?);
        let mode = self.u32()?;
        self.skip(4)?;
        let (uid, gid) = (self.u32()?, self.u32()?);
        let time = |set: u32, now: u32, secs: i64, nanos: u32| match valid {
            valid if valid & set == 0 => None,
            valid if valid & now != 0 => Some(Time::Now),
            _ => Some(Time::At { secs, nanos }),
        };
        Ok(Attributes {
            mode: (valid & attribute::MODE != 0).then_some(mode),
            uid: (valid & attribute::UID != 0).then_some(uid),
            gid: (valid & attribute::GID != 0).then_some(gid),
            size: (valid & attribute::SIZE != 0).then_some(size),
            atime: time(attribute::ATIME, attribute::ATIME_NOW, atime, atime_nanos),
            mtime: time(attribute::MTIME, attribute::MTIME_NOW, mtime, mtime_nanos),
        })
    }
}

#[cfg(test)]
mod tests;
