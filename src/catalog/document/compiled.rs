//! The compiled form of a document in the cache: an index that is kept in memory, and records that are read one by
//! one. A document can always be compiled again, so every inconsistency is an error that makes the compiled form
//! unusable.
//!
//! ```text
//! magic (16) · document digest (32) · total length (8) · index offset and length (8 + 8) · index checksum (8)
//! records: checksum (8), JSON · index (postcard)
//! ```

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt, io,
    sync::OnceLock,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{
    CompiledDocument, NameCollision, Providers, entry::OperationEntry,
    schema::collect_shared_names, words::WordIndex,
};
use crate::operation::{Operation, SecurityScheme};
use midex_domain::{Digest, error::Violation, limits};

/// The number is the version of the format. It increases with each change, so that older files are compiled again.
const MAGIC: &[u8; 16] = b"midex-catalog 5\n";
const HEADER_BYTES: usize = 80;
const CHECKSUM_BYTES: usize = 8;

/// Reads the bytes at an offset into a buffer.
pub type ByteSource = Box<dyn Fn(u64, &mut [u8]) -> io::Result<()> + Send + Sync>;

/// A compiled document, whose operations are read on demand.
pub struct DocumentReader {
    source: ByteSource,
    digest: Digest,
    head: DocumentHead,
    index: RecordIndex,
    words: OnceLock<WordIndex>,
}

impl fmt::Debug for DocumentReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DocumentReader({}, {} operations)", self.head.title, self.index.entries.len())
    }
}

/// The metadata of a document, as in [`CompiledDocument`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "`CompiledDocument` says what they are")]
pub struct DocumentHead {
    pub title: String,
    pub version: String,
    pub description: String,
    pub servers: Vec<String>,
    pub schemes: BTreeMap<String, SecurityScheme>,
    /// The number of providers.
    pub provider_count: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct RecordIndex {
    /// JSON, because postcard does not support tagged enums.
    head: String,
    entries: Vec<OperationEntry>,
    operations: Vec<RecordPosition>,
    /// The shared schemas, ordered by name.
    schemas: Vec<(Box<str>, RecordPosition)>,
    notes: RecordPosition,
}

/// The position of a record.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct RecordPosition {
    at: u64,
    length: u32,
}

/// The rarely used parts of a compiled document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DocumentNotes {
    /// Operations that list objects, and the arguments that take values from them.
    pub providers: Providers,
    /// Operations that did not get their derived name, because another operation has it.
    pub collisions: Vec<NameCollision>,
    /// Problems of the document that do not prevent its import.
    pub warnings: Vec<Violation>,
}

impl CompiledDocument {
    /// Encodes the compiled form, which [`DocumentReader::open`] reads.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        let operations =
            self.operations.iter().map(|operation| append_record(&mut bytes, operation)).collect();
        let schemas = self.schemas.iter();
        let schemas = schemas
            .map(|(name, schema)| (name.as_str().into(), append_record(&mut bytes, schema)))
            .collect();
        let notes = append_record(
            &mut bytes,
            &DocumentNotes {
                providers: self.providers.clone(),
                collisions: self.collisions.clone(),
                warnings: self.warnings.clone(),
            },
        );
        let index = RecordIndex {
            head: serde_json::to_string(&self.head()).unwrap_or_default(),
            entries: self.operations.iter().map(OperationEntry::from_operation).collect(),
            operations,
            schemas,
            notes,
        };
        let index = postcard::to_stdvec(&index).unwrap_or_default();
        let at = bytes.len() as u64;
        bytes.extend_from_slice(&index);
        let length = bytes.len() as u64;
        let numbers = [length, at, index.len() as u64].map(u64::to_le_bytes).concat();
        let header =
            [MAGIC, self.digest.as_bytes().as_slice(), &numbers, &compute_checksum(&index)]
                .concat();
        bytes[..HEADER_BYTES].copy_from_slice(&header);
        bytes
    }

    fn head(&self) -> DocumentHead {
        DocumentHead {
            title: self.title.clone(),
            version: self.version.clone(),
            description: self.description.clone(),
            servers: self.servers.clone(),
            schemes: self.schemes.clone(),
            provider_count: self.providers.providers.len(),
        }
    }
}

/// Appends a record with its checksum.
fn append_record(bytes: &mut Vec<u8>, value: &impl Serialize) -> RecordPosition {
    let json = serde_json::to_vec(value).unwrap_or_default();
    let at = bytes.len() as u64;
    bytes.extend_from_slice(&compute_checksum(&json));
    bytes.extend_from_slice(&json);
    RecordPosition { at, length: u32::try_from(json.len()).unwrap_or(u32::MAX) }
}

fn compute_checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut checksum = [0; CHECKSUM_BYTES];
    checksum.copy_from_slice(&Digest::compute(bytes).as_bytes()[..CHECKSUM_BYTES]);
    checksum
}

fn invalid_data_error(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what}: compile the document again"))
}

impl DocumentReader {
    /// Opens a compiled form of `length` bytes. Reads its index, and no operation.
    ///
    /// # Errors
    /// `InvalidData` if it is of another version, truncated or damaged. The document must be compiled again then.
    pub fn open(length: u64, source: ByteSource) -> io::Result<Self> {
        let mut header = [0; HEADER_BYTES];
        if length < HEADER_BYTES as u64 {
            return Err(invalid_data_error("the compiled document is cut off"));
        }
        source(0, &mut header)?;
        if &header[..16] != MAGIC {
            return Err(invalid_data_error("this is no compiled document of this version"));
        }
        let read_number = |at: usize| {
            header[at..at + 8].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let (total_length, index_offset, index_length) =
            (read_number(48), read_number(56), read_number(64));
        if total_length != length || index_offset.checked_add(index_length) != Some(length) {
            return Err(invalid_data_error("the compiled document is cut off"));
        }
        let mut bytes = vec![0; usize::try_from(index_length).map_err(io::Error::other)?];
        source(index_offset, &mut bytes)?;
        if compute_checksum(&bytes) != header[72..] {
            return Err(invalid_data_error("the index of the compiled document is damaged"));
        }
        let index: RecordIndex = postcard::from_bytes(&bytes)
            .map_err(|_| invalid_data_error("the index of the compiled document cannot be read"))?;
        let head = serde_json::from_str(&index.head)?;
        let digest = postcard::from_bytes(&header[16..48])
            .map_err(|_| invalid_data_error("the digest cannot be read"))?;
        Ok(Self { source, digest, head, index, words: OnceLock::new() })
    }

    /// Opens a compiled form in memory.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_bytes(bytes: Vec<u8>) -> io::Result<Self> {
        let length = bytes.len() as u64;
        let source: ByteSource = Box::new(move |at, into| {
            let at = usize::try_from(at).map_err(io::Error::other)?;
            let range = at.checked_add(into.len()).and_then(|end| bytes.get(at..end));
            into.copy_from_slice(
                range.ok_or_else(|| invalid_data_error("the compiled document is cut off"))?,
            );
            Ok(())
        });
        Self::open(length, source)
    }

    /// The digest of the document that was compiled.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The metadata of the document.
    pub fn head(&self) -> &DocumentHead {
        &self.head
    }

    /// The index entries of its operations, ordered by name. [`Self::read_operation`] takes their positions.
    pub fn entries(&self) -> &[OperationEntry] {
        &self.index.entries
    }

    /// The position of an operation, by its name or one of its aliases.
    pub fn find_operation_index(&self, name: &str) -> Option<usize> {
        let entries = &self.index.entries;
        let search_result = entries.binary_search_by(|entry| (*entry.name).cmp(name)).ok();
        search_result.or_else(|| {
            entries.iter().position(|entry| entry.aliases.iter().any(|alias| **alias == *name))
        })
    }

    /// Reads an operation with self-contained schemas: each has the shared schemas that it refers to under its
    /// `$defs`, up to [`limits::OPERATION_SCHEMAS_MAX`] schemas and [`limits::OPERATION_SCHEMAS_BYTES_MAX`]. Schemas
    /// past these limits accept anything.
    ///
    /// # Errors
    /// `InvalidData` if the compiled form is damaged, and the errors of the source.
    pub fn read_operation(&self, index: usize) -> io::Result<Operation> {
        let mut operation = self.read_bare_operation(index)?;
        let mut read_schemas = HashMap::new();
        let bodies = operation
            .body
            .iter_mut()
            .flat_map(|body| &mut body.contents)
            .map(|content| &mut content.schema);
        let parameters = operation.parameters.iter_mut().map(|parameter| &mut parameter.schema);
        for schema in parameters.chain(bodies).chain(&mut operation.output) {
            self.add_shared_schemas(schema, &mut read_schemas)?;
        }
        Ok(operation)
    }

    /// Reads an operation without the shared schemas that it refers to. Cheaper than [`Self::read_operation`], and enough
    /// to list it.
    ///
    /// # Errors
    /// As [`Self::read_operation`].
    pub fn read_bare_operation(&self, index: usize) -> io::Result<Operation> {
        let place = self.index.operations.get(index).ok_or(io::ErrorKind::NotFound)?;
        self.read_record(*place)
    }

    /// Reads the rarely used parts.
    ///
    /// # Errors
    /// As [`Self::read_operation`].
    pub fn read_notes(&self) -> io::Result<DocumentNotes> {
        self.read_record(self.index.notes)
    }

    /// The search index of its operations, which is built on first use.
    pub(super) fn search_index(&self) -> &WordIndex {
        self.words.get_or_init(|| WordIndex::from_entries(&self.index.entries))
    }

    /// Builds the search index now instead of during the first search.
    pub fn build_search_index(&self) {
        self.search_index();
    }

    /// Adds all shared schemas that a schema refers to, directly or indirectly, under its `$defs`.
    fn add_shared_schemas(
        &self,
        schema: &mut Value,
        read: &mut HashMap<String, (Value, usize)>,
    ) -> io::Result<()> {
        let mut definitions = Map::new();
        let mut bytes = 0;
        let mut added = HashSet::new();
        let mut pending = list_shared_names(schema);
        while !pending.is_empty() {
            let mut next_pending = Vec::new();
            for name in pending.into_iter().filter(|name| added.insert(name.clone())) {
                let (value, length) = self.read_shared_schema(&name, read)?;
                bytes += length;
                if definitions.len() < limits::OPERATION_SCHEMAS_MAX
                    && bytes <= limits::OPERATION_SCHEMAS_BYTES_MAX
                {
                    next_pending.extend(list_shared_names(value));
                    definitions.insert(name, value.clone());
                } else {
                    definitions.insert(name, Value::Bool(true));
                }
            }
            pending = next_pending;
        }
        if let Some(schema) = schema.as_object_mut().filter(|_| !definitions.is_empty()) {
            schema.insert("$defs".into(), definitions.into());
        }
        Ok(())
    }

    fn read_shared_schema<'a>(
        &self,
        name: &str,
        read: &'a mut HashMap<String, (Value, usize)>,
    ) -> io::Result<&'a (Value, usize)> {
        if !read.contains_key(name) {
            let search_result =
                self.index.schemas.binary_search_by(|(known, _)| (**known).cmp(name));
            let place =
                search_result.map_err(|_| invalid_data_error("a shared schema is not there"))?;
            let place = self.index.schemas[place].1;
            read.insert(name.to_owned(), (self.read_record(place)?, place.length as usize));
        }
        Ok(&read[name])
    }

    fn read_record<T: DeserializeOwned>(&self, position: RecordPosition) -> io::Result<T> {
        let mut bytes = vec![0; CHECKSUM_BYTES + position.length as usize];
        (self.source)(position.at, &mut bytes)?;
        let (stored_checksum, json) = bytes.split_at(CHECKSUM_BYTES);
        if stored_checksum != compute_checksum(json) {
            return Err(invalid_data_error("a record of the compiled document is damaged"));
        }
        Ok(serde_json::from_slice(json)?)
    }
}

fn list_shared_names(schema: &Value) -> Vec<String> {
    let mut names = Vec::new();
    collect_shared_names(schema, &mut names);
    names.into_iter().map(str::to_owned).collect()
}
