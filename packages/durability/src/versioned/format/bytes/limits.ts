/** The version of the format that this build reads and writes. */
export const FORMAT_VERSION = 1

/** Sizes of chunks: a power of two from 4 KiB to 1 MiB. */
export const MIN_CHUNK_BYTES: number = 4 * 1024
export const MAX_CHUNK_BYTES: number = 1024 * 1024

/** References in one entry of the index. */
export const MAX_ENTRY_REFS = 64
/** Of a path or the text of a link, in UTF-8. */
export const MAX_TEXT_BYTES = 4096
/** A page before compression. A writer aims at 16 KiB and begins a new page before 64 KiB. */
export const MAX_PAGE_BYTES: number = 128 * 1024
/** A header before compression. */
export const MAX_HEADER_BYTES: number = 8 * 1024 * 1024
/** Pages that a header lists itself; more go through one inner level. The same for packs. */
export const MAX_LISTED = 1000
/** Entries of one commit, continuations of files counted. */
export const MAX_ENTRIES = 8_000_000
/** Objects that one commit takes payload from. */
export const MAX_PACKS = 1_000_000
/** Of the names of packs in a table, and of other short texts of a header. */
export const MAX_NAME_BYTES = 256
