import type { ChunkRef } from './bytes/chunk.ts'

/** A file. One of more than 64 chunks goes on in {@link MoreEntry}. */
export interface FileEntry {
  type: 'file'
  path: string
  /** 0 to 0o777. */
  mode: number
  mtimeNs: bigint
  size: number
  chunkSize: number
  /** Its first chunks, 64 at most. */
  refs: readonly ChunkRef[]
}

/** Further chunks of the file of this path, whose entry comes before. */
export interface MoreEntry {
  type: 'more'
  path: string
  /** Number of its first chunk in the file: a multiple of 64. */
  first: number
  refs: readonly ChunkRef[]
}

/** A directory that is empty, or whose mode isn't 0700. */
export interface DirEntry {
  type: 'dir'
  path: string
  /** 0 to 0o777. */
  mode: number
}

/** A symbolic link. */
export interface LinkEntry {
  type: 'link'
  path: string
  /** Its text, verbatim. */
  target: string
}

/** One entry of the tree index. */
export type IndexEntry = FileEntry | MoreEntry | DirEntry | LinkEntry

/**
 * What entries are sorted by, code unit by code unit: the path, and behind a NUL, which no path has, the number of the first
 * chunk in ten digits.
 */
export function keyOf(entry: { type: IndexEntry['type']; path: string; first?: number }): string {
  return entry.type === 'more' ? moreKey(entry.path, entry.first ?? 0) : entry.path
}

/** The key of a {@link MoreEntry}. */
export function moreKey(path: string, first: number): string {
  return `${path}\0${String(first).padStart(10, '0')}`
}

/** Chunks of a file. */
export function chunkCount(size: number, chunkSize: number): number {
  return Math.ceil(size / chunkSize)
}

/** Bytes of one chunk of a file. */
export function chunkLength(size: number, chunkSize: number, index: number): number {
  return Math.min(chunkSize, size - index * chunkSize)
}
