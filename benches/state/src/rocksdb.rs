//! RocksDB through its C API, from a shared library that is loaded at run time.
//!
//! All unsafe code for it is here. Invariants: a handle is made by the library and destroyed
//! once, by the owner's `drop`; buffers that are passed in outlive the call; an error string is
//! the library's and freed with its own `free`.

use crate::workload::{Counted, SortedKeys, VALUE_BYTES};
use anyhow::{Context, Result, bail};
use std::ffi::{CStr, CString, c_char, c_double, c_int, c_uchar, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How it is set up, for the heading of the result.
pub(crate) const OPTIONS: &str = "write-ahead log off, no compression, full bloom filter of 10 bits, \
4 KiB blocks with a hash index, LRU block cache of 1 GiB and warm, 2 write buffers of 64 MiB, 2 \
background jobs, sorted batched multi-get";

type Handle = *mut c_void;
type Bytes = *const c_char;
type Failure = *mut *mut c_char;

/// Lists the functions that are used, as `rocksdb/c.h` has them, without `rocksdb_`.
macro_rules! api {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        #[expect(non_snake_case, reason = "the names are RocksDB's")]
        struct Api {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Api {
            fn load(library: &libloading::Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of `rocksdb/c.h`, which has kept them since 7.0.
                // The library outlives the pointers: `Library` holds both.
                unsafe {
                    Ok(Self {
                        $($name: *library.get(concat!("rocksdb_", stringify!($name)))?,)*
                    })
                }
            }
        }
    };
}

api! {
    options_create() -> Handle;
    options_destroy(Handle);
    options_set_create_if_missing(Handle, c_uchar);
    options_set_compression(Handle, c_int);
    options_set_write_buffer_size(Handle, usize);
    options_set_max_write_buffer_number(Handle, c_int);
    options_set_max_background_jobs(Handle, c_int);
    options_set_max_open_files(Handle, c_int);
    options_set_disable_auto_compactions(Handle, c_int);
    options_set_block_based_table_factory(Handle, Handle);
    block_based_options_create() -> Handle;
    block_based_options_destroy(Handle);
    block_based_options_set_filter_policy(Handle, Handle);
    block_based_options_set_block_cache(Handle, Handle);
    block_based_options_set_block_size(Handle, usize);
    block_based_options_set_format_version(Handle, c_int);
    block_based_options_set_data_block_index_type(Handle, c_int);
    block_based_options_set_data_block_hash_ratio(Handle, c_double);
    filterpolicy_create_bloom_full(c_double) -> Handle;
    cache_create_lru(usize) -> Handle;
    cache_destroy(Handle);
    open_column_families(
        Handle, Bytes, c_int, *const Bytes, *const Handle, *mut Handle, Failure
    ) -> Handle;
    close(Handle);
    column_family_handle_destroy(Handle);
    readoptions_create() -> Handle;
    readoptions_destroy(Handle);
    writeoptions_create() -> Handle;
    writeoptions_destroy(Handle);
    writeoptions_disable_WAL(Handle, c_int);
    writebatch_create() -> Handle;
    writebatch_destroy(Handle);
    writebatch_clear(Handle);
    writebatch_put(Handle, Bytes, usize, Bytes, usize);
    write(Handle, Handle, Handle, Failure);
    flushoptions_create() -> Handle;
    flushoptions_destroy(Handle);
    flush(Handle, Handle, Failure);
    compact_range(Handle, Bytes, usize, Bytes, usize);
    batched_multi_get_cf(
        Handle, Handle, Handle, usize, *const Bytes, *const usize, *mut Handle, *mut *mut c_char,
        bool
    );
    pinnableslice_value(Handle, *mut usize) -> Bytes;
    pinnableslice_destroy(Handle);
    checkpoint_object_create(Handle, Failure) -> Handle;
    checkpoint_create(Handle, Bytes, u64, Failure);
    checkpoint_object_destroy(Handle);
    free(*mut c_void);
}

struct Loaded {
    api: Api,
    _library: libloading::Library,
}

/// The shared library. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Library {
    loaded: Arc<Loaded>,
    /// Its file name, which should tell the version.
    pub(crate) name: String,
}

impl Library {
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let load = || {
            // SAFETY: RocksDB's initialisers have no conditions; that it is RocksDB is what the
            // caller says.
            let library = unsafe { libloading::Library::new(path) }?;
            let api = Api::load(&library)?;
            Ok::<_, libloading::Error>(Loaded { api, _library: library })
        };
        let loaded = load().with_context(|| {
            format!(
                "cannot use {} as RocksDB; get it with `cargo xtask setup --rocksdb`, or leave it \
                 out with --no-peer",
                path.display()
            )
        })?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { loaded: Arc::new(loaded), name })
    }

    fn api(&self) -> &Api {
        &self.loaded.api
    }

    /// Fails with the library's error string, if it left one.
    fn check(&self, what: &str, failure: *mut c_char) -> Result<()> {
        if failure.is_null() {
            return Ok(());
        }
        // SAFETY: a failure is a string of the library that is ours to free.
        let text = unsafe {
            let text = CStr::from_ptr(failure).to_string_lossy().into_owned();
            (self.api().free)(failure.cast());
            text
        };
        bail!("RocksDB cannot {what}: {text}");
    }
}

/// Whether RocksDB merges its sorted runs by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compaction {
    Automatic,
    Off,
}

/// An open database.
pub(crate) struct RocksDb {
    library: Library,
    directory: PathBuf,
    database: Handle,
    column_family: Handle,
    cache: Handle,
    read_options: Handle,
    write_options: Handle,
    write_batch: Handle,
    /// Results of a lookup: pinned slices, null for a missing key.
    slices: Vec<Handle>,
    failures: Vec<*mut c_char>,
}

const CACHE_BYTES: usize = 1 << 30;
const WRITE_BUFFER_BYTES: usize = 64 << 20;
const NO_COMPRESSION: c_int = 0;
const BINARY_SEARCH_AND_HASH: c_int = 1;

impl RocksDb {
    pub(crate) fn open(
        library: &Library,
        directory: &Path,
        compaction: Compaction,
    ) -> Result<Self> {
        let api = library.api();
        let path = c_path(directory)?;
        let mut failure = std::ptr::null_mut();
        let mut column_family = std::ptr::null_mut();
        let names = [c"default".as_ptr()];
        // SAFETY: see the module. The table options take over the filter policy; cache and table
        // options are shared with what uses them, so destroying our handle leaves them alive.
        // There is one column family: its name, options and handle are lists of one.
        let (database, cache) = unsafe {
            let options = (api.options_create)();
            (api.options_set_create_if_missing)(options, 1);
            (api.options_set_compression)(options, NO_COMPRESSION);
            (api.options_set_write_buffer_size)(options, WRITE_BUFFER_BYTES);
            (api.options_set_max_write_buffer_number)(options, 2);
            (api.options_set_max_background_jobs)(options, 2);
            (api.options_set_max_open_files)(options, -1);
            let off = c_int::from(compaction == Compaction::Off);
            (api.options_set_disable_auto_compactions)(options, off);
            let table = (api.block_based_options_create)();
            let cache = (api.cache_create_lru)(CACHE_BYTES);
            (api.block_based_options_set_block_cache)(table, cache);
            (api.block_based_options_set_block_size)(table, 4096);
            (api.block_based_options_set_format_version)(table, 5);
            (api.block_based_options_set_data_block_index_type)(table, BINARY_SEARCH_AND_HASH);
            (api.block_based_options_set_data_block_hash_ratio)(table, 0.75);
            let filter = (api.filterpolicy_create_bloom_full)(10.0);
            (api.block_based_options_set_filter_policy)(table, filter);
            (api.options_set_block_based_table_factory)(options, table);
            let database = (api.open_column_families)(
                options,
                path.as_ptr(),
                1,
                names.as_ptr(),
                &raw const options,
                &raw mut column_family,
                &raw mut failure,
            );
            (api.block_based_options_destroy)(table);
            (api.options_destroy)(options);
            (database, cache)
        };
        library.check("open its database", failure)?;
        // SAFETY: see the module.
        let (read_options, write_options, write_batch) = unsafe {
            let write_options = (api.writeoptions_create)();
            (api.writeoptions_disable_WAL)(write_options, 1);
            ((api.readoptions_create)(), write_options, (api.writebatch_create)())
        };
        Ok(Self {
            library: library.clone(),
            directory: directory.to_owned(),
            database,
            column_family,
            cache,
            read_options,
            write_options,
            write_batch,
            slices: Vec::new(),
            failures: Vec::new(),
        })
    }

    /// Looks all keys up in one call and hands each value to `see`, in the order of the keys.
    fn look_up(
        &mut self,
        keys: &SortedKeys,
        mut see: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let (pointers, lengths): (Vec<Bytes>, Vec<usize>) =
            keys.iter().map(|key| (key.as_ptr().cast(), key.len())).unzip();
        let count = pointers.len();
        self.slices.clear();
        self.slices.resize(count, std::ptr::null_mut());
        self.failures.clear();
        self.failures.resize(count, std::ptr::null_mut());
        let api = self.library.api();
        // SAFETY: all four lists have `count` entries, and the keys live on in `keys`.
        unsafe {
            (api.batched_multi_get_cf)(
                self.database,
                self.read_options,
                self.column_family,
                count,
                pointers.as_ptr(),
                lengths.as_ptr(),
                self.slices.as_mut_ptr(),
                self.failures.as_mut_ptr(),
                true,
            );
        }
        for &failure in &self.failures {
            self.library.check("look keys up", failure)?;
        }
        for (at, &slice) in self.slices.iter().enumerate() {
            if slice.is_null() {
                see(at, None);
                continue;
            }
            let mut length = 0;
            // SAFETY: the value is pinned, `length` bytes long, until the slice is destroyed.
            unsafe {
                let value = (api.pinnableslice_value)(slice, &raw mut length);
                see(at, Some(std::slice::from_raw_parts(value.cast(), length)));
                (api.pinnableslice_destroy)(slice);
            }
        }
        Ok(())
    }

    /// The values of the keys that are there, copied out one after the other. Returns how many.
    pub(crate) fn get(&mut self, keys: &SortedKeys, values: &mut Vec<u8>) -> Result<u64> {
        values.clear();
        let mut present = 0;
        self.look_up(keys, |_, value| {
            if let Some(value) = value {
                values.extend_from_slice(value);
                present += 1;
            }
        })?;
        Ok(present)
    }

    /// What the keys have.
    pub(crate) fn count(&mut self, keys: &SortedKeys) -> Result<Counted> {
        let mut counted = Counted::default();
        self.look_up(keys, |at, value| counted.see(keys.numbers[at], value))?;
        Ok(counted)
    }

    /// Counts up each of the keys.
    pub(crate) fn count_up(&mut self, keys: &SortedKeys) -> Result<Counted> {
        let mut counted = Counted::default();
        let mut values = vec![0; keys.numbers.len() * VALUE_BYTES];
        let mut slots = values.chunks_exact_mut(VALUE_BYTES);
        self.look_up(keys, |at, value| {
            if let Some(slot) = slots.next() {
                counted.count_up(keys.numbers[at], value, slot);
            }
        })?;
        self.put(keys, values.chunks_exact(VALUE_BYTES))?;
        Ok(counted)
    }

    pub(crate) fn put<'a>(
        &mut self,
        keys: &SortedKeys,
        values: impl Iterator<Item = &'a [u8]>,
    ) -> Result<()> {
        let api = self.library.api();
        let mut failure = std::ptr::null_mut();
        // SAFETY: see the module; a put copies what it is given.
        unsafe {
            (api.writebatch_clear)(self.write_batch);
            for (key, value) in keys.iter().zip(values) {
                (api.writebatch_put)(
                    self.write_batch,
                    key.as_ptr().cast(),
                    key.len(),
                    value.as_ptr().cast(),
                    value.len(),
                );
            }
            (api.write)(self.database, self.write_options, self.write_batch, &raw mut failure);
        }
        self.library.check("write", failure)
    }

    /// Writes the write buffer out as one sorted run.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let api = self.library.api();
        let mut failure = std::ptr::null_mut();
        // SAFETY: see the module.
        unsafe {
            let options = (api.flushoptions_create)();
            (api.flush)(self.database, options, &raw mut failure);
            (api.flushoptions_destroy)(options);
        }
        self.library.check("flush", failure)
    }

    /// Makes all sorted runs one.
    pub(crate) fn compact(&mut self) {
        // SAFETY: null pointers mean the whole range.
        unsafe {
            (self.library.api().compact_range)(
                self.database,
                std::ptr::null(),
                0,
                std::ptr::null(),
                0,
            );
        }
    }

    /// Flushes, and links the files into a directory that does not exist yet.
    pub(crate) fn checkpoint(&mut self, directory: &Path) -> Result<()> {
        let api = self.library.api();
        let path = c_path(directory)?;
        let mut failure = std::ptr::null_mut();
        // SAFETY: see the module.
        let checkpoint = unsafe { (api.checkpoint_object_create)(self.database, &raw mut failure) };
        self.library.check("begin a checkpoint", failure)?;
        // SAFETY: `checkpoint` is valid, and destroyed here. A log size of 0 means: flush always.
        unsafe {
            (api.checkpoint_create)(checkpoint, path.as_ptr(), 0, &raw mut failure);
            (api.checkpoint_object_destroy)(checkpoint);
        }
        self.library.check("write a checkpoint", failure)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        let api = self.library.api();
        // SAFETY: each was made by the library for us, and is used no more.
        unsafe {
            (api.writebatch_destroy)(self.write_batch);
            (api.writeoptions_destroy)(self.write_options);
            (api.readoptions_destroy)(self.read_options);
            (api.column_family_handle_destroy)(self.column_family);
            (api.close)(self.database);
            (api.cache_destroy)(self.cache);
        }
    }
}

fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.to_string_lossy().as_bytes()).context("a path with a zero byte")
}
