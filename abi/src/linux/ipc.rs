//! IPC: System V's shared memory, semaphores and message queues, and POSIX message queues.

plain! {
    /// `struct mq_attr`.
    pub struct MqAttr {
        pub flags: i64,
        pub maxmsg: i64,
        pub msgsize: i64,
        pub curmsgs: i64,
        pub reserved: [i64; 4],
    }
    /// `struct ipc64_perm`.
    pub struct IpcPerm {
        pub key: i32,
        pub uid: u32,
        pub gid: u32,
        pub cuid: u32,
        pub cgid: u32,
        pub mode: u32,
        pub seq: u16,
        pub pad0: u16,
        pub pad1: u32,
        pub unused: [u64; 2],
    }
    /// `struct shmid64_ds`.
    pub struct ShmidDs {
        pub perm: IpcPerm,
        pub segsz: u64,
        pub atime: i64,
        pub dtime: i64,
        pub ctime: i64,
        pub cpid: i32,
        pub lpid: i32,
        pub nattch: u64,
        pub unused: [u64; 2],
    }
    /// `struct shminfo64`.
    pub struct Shminfo {
        pub shmmax: u64,
        pub shmmin: u64,
        pub shmmni: u64,
        pub shmseg: u64,
        pub shmall: u64,
        pub unused: [u64; 4],
    }
    /// `struct shm_info`.
    pub struct ShmInfo {
        pub used_ids: i32,
        pub pad0: i32,
        pub shm_tot: u64,
        pub shm_rss: u64,
        pub shm_swp: u64,
        pub swap_attempts: u64,
        pub swap_successes: u64,
    }
    /// `struct semid64_ds`.
    pub struct SemidDs {
        pub perm: IpcPerm,
        pub otime: i64,
        pub unused1: u64,
        pub ctime: i64,
        pub unused2: u64,
        pub nsems: u64,
        pub unused3: [u64; 2],
    }
    /// `struct seminfo`.
    pub struct Seminfo {
        pub semmap: i32,
        pub semmni: i32,
        pub semmns: i32,
        pub semmnu: i32,
        pub semmsl: i32,
        pub semopm: i32,
        pub semume: i32,
        pub semusz: i32,
        pub semvmx: i32,
        pub semaem: i32,
    }
    /// `struct sembuf`.
    pub struct Sembuf {
        pub num: u16,
        pub op: i16,
        pub flags: i16,
    }
    /// `struct msqid64_ds`.
    pub struct MsqidDs {
        pub perm: IpcPerm,
        pub stime: i64,
        pub rtime: i64,
        pub ctime: i64,
        pub cbytes: u64,
        pub qnum: u64,
        pub qbytes: u64,
        pub lspid: i32,
        pub lrpid: i32,
        pub unused: [u64; 2],
    }
    /// `struct msginfo`.
    pub struct Msginfo {
        pub msgpool: i32,
        pub msgmap: i32,
        pub msgmax: i32,
        pub msgmnb: i32,
        pub msgmni: i32,
        pub msgssz: i32,
        pub msgtql: i32,
        pub msgseg: u16,
        pub pad0: u16,
    }
}

constants! { u32:
    IPC_CREAT = 0o1000, IPC_EXCL = 0o2000, IPC_NOWAIT = 0o4000,
    SHM_RDONLY = 0o10000, SHM_RND = 0o20000, SHM_REMAP = 0o40000, SHM_EXEC = 0o100000, SHM_HUGETLB = 0o4000,
    SHM_DEST = 0o1000, SHM_LOCKED = 0o2000,
    MSG_NOERROR = 0o10000, MSG_EXCEPT = 0o20000, MSG_COPY = 0o40000,
    SEM_UNDO = 0x1000,
    MQ_PRIO_MAX = 32768,
}

constants! { i32:
    IPC_PRIVATE = 0, IPC_RMID = 0, IPC_SET = 1, IPC_STAT = 2, IPC_INFO = 3,
    SHM_LOCK = 11, SHM_UNLOCK = 12, SHM_STAT = 13, SHM_INFO = 14, SHM_STAT_ANY = 15,
    GETPID = 11, GETVAL = 12, GETALL = 13, GETNCNT = 14, GETZCNT = 15, SETVAL = 16, SETALL = 17, SEM_STAT = 18, SEM_INFO = 19, SEM_STAT_ANY = 20,
    MSG_STAT = 11, MSG_INFO = 12, MSG_STAT_ANY = 13,
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::size_of;

    #[test]
    fn sizes_are_linux() {
        assert_eq!((size_of::<IpcPerm>(), size_of::<ShmidDs>()), (48, 112));
        assert_eq!((size_of::<Shminfo>(), size_of::<ShmInfo>()), (72, 48));
        assert_eq!((size_of::<SemidDs>(), size_of::<Seminfo>()), (104, 40));
        assert_eq!((size_of::<MsqidDs>(), size_of::<Msginfo>()), (120, 32));
        assert_eq!(size_of::<Sembuf>(), 6);
    }
}
