//! Sound: the numbers and structures of the Open Sound System (`linux/soundcard.h`).

plain! {
    /// Room or data of one direction, in fragments and bytes.
    pub struct AudioBufInfo {
        pub fragments: i32,
        pub fragstotal: i32,
        pub fragsize: i32,
        pub bytes: i32,
    }

    /// How far one direction has come.
    pub struct CountInfo {
        /// Bytes since it began.
        pub bytes: i32,
        /// Fragments since the last question.
        pub blocks: i32,
        /// The place in the buffer.
        pub ptr: i32,
    }

    /// A mixer.
    pub struct MixerInfo {
        pub id: [u8; 16],
        pub name: [u8; 32],
        pub modify_counter: i32,
        pub fillers: [i32; 10],
    }

    /// The same, as it was at first.
    pub struct OldMixerInfo {
        pub id: [u8; 16],
        pub name: [u8; 32],
    }
}

constants! { u32:
    SNDCTL_DSP_RESET = 0x5000, SNDCTL_DSP_SYNC = 0x5001, SNDCTL_DSP_SPEED = 0xc004_5002,
    SNDCTL_DSP_STEREO = 0xc004_5003, SNDCTL_DSP_GETBLKSIZE = 0xc004_5004, SNDCTL_DSP_SETFMT = 0xc004_5005,
    SNDCTL_DSP_CHANNELS = 0xc004_5006, SOUND_PCM_WRITE_FILTER = 0xc004_5007, SNDCTL_DSP_POST = 0x5008,
    SNDCTL_DSP_SUBDIVIDE = 0xc004_5009, SNDCTL_DSP_SETFRAGMENT = 0xc004_500a, SNDCTL_DSP_GETFMTS = 0x8004_500b,
    SNDCTL_DSP_GETOSPACE = 0x8010_500c, SNDCTL_DSP_GETISPACE = 0x8010_500d, SNDCTL_DSP_NONBLOCK = 0x500e,
    SNDCTL_DSP_GETCAPS = 0x8004_500f, SNDCTL_DSP_GETTRIGGER = 0x8004_5010, SNDCTL_DSP_SETTRIGGER = 0x4004_5010,
    SNDCTL_DSP_GETIPTR = 0x800c_5011, SNDCTL_DSP_GETOPTR = 0x800c_5012, SNDCTL_DSP_SETSYNCRO = 0x5015,
    SNDCTL_DSP_SETDUPLEX = 0x5016, SNDCTL_DSP_GETODELAY = 0x8004_5017, SNDCTL_DSP_PROFILE = 0x4004_5017,
    SOUND_PCM_READ_RATE = 0x8004_5002, SOUND_PCM_READ_BITS = 0x8004_5005, SOUND_PCM_READ_CHANNELS = 0x8004_5006,
    SOUND_PCM_READ_FILTER = 0x8004_5007,

    OSS_GETVERSION = 0x8004_4d76, SOUND_MIXER_INFO = 0x805c_4d65, SOUND_OLD_MIXER_INFO = 0x8030_4d65,
    SOUND_MIXER_READ_RECSRC = 0x8004_4dff, SOUND_MIXER_WRITE_RECSRC = 0xc004_4dff,
    SOUND_MIXER_READ_DEVMASK = 0x8004_4dfe, SOUND_MIXER_READ_RECMASK = 0x8004_4dfd,
    SOUND_MIXER_READ_CAPS = 0x8004_4dfc, SOUND_MIXER_READ_STEREODEVS = 0x8004_4dfb,
    SOUND_MIXER_READ_VOLUME = 0x8004_4d00, SOUND_MIXER_READ_PCM = 0x8004_4d04,
    SOUND_MIXER_WRITE_VOLUME = 0xc004_4d00, SOUND_MIXER_WRITE_PCM = 0xc004_4d04,

    SOUND_MASK_VOLUME = 1 << 0, SOUND_MASK_PCM = 1 << 4, SOUND_MASK_MIC = 1 << 7,
    SOUND_CAP_EXCL_INPUT = 1,

    AFMT_QUERY = 0, AFMT_MU_LAW = 0x1, AFMT_A_LAW = 0x2, AFMT_U8 = 0x8, AFMT_S16_LE = 0x10, AFMT_S16_BE = 0x20,
    AFMT_S8 = 0x40, AFMT_U16_LE = 0x80, AFMT_U16_BE = 0x100, AFMT_S32_LE = 0x1000, AFMT_S32_BE = 0x2000,
    AFMT_S24_LE = 0x8000, AFMT_S24_BE = 0x1_0000, AFMT_S24_PACKED = 0x4_0000,

    DSP_CAP_DUPLEX = 0x100, DSP_CAP_REALTIME = 0x200, DSP_CAP_TRIGGER = 0x1000,
    PCM_ENABLE_INPUT = 1, PCM_ENABLE_OUTPUT = 2,
}

/// The version of the interface, 3.8.1.
pub const OSS_VERSION: i32 = 0x3_0810;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_the_numbers() {
        let size = |number: u32| (number >> 16 & 0x3fff) as usize;
        assert_eq!(size_of::<AudioBufInfo>(), size(SNDCTL_DSP_GETOSPACE));
        assert_eq!(size_of::<CountInfo>(), size(SNDCTL_DSP_GETOPTR));
        assert_eq!(size_of::<MixerInfo>(), size(SOUND_MIXER_INFO));
        assert_eq!(size_of::<OldMixerInfo>(), size(SOUND_OLD_MIXER_INFO));
    }
}
