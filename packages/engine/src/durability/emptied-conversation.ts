import { closeSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { systemCode } from '@nexus/errors'
import type { Manifest } from './manifest.ts'

const CONVERSATION_PATH = 'context/conversation.jsonl'

/** A file of blank lines that is longer than this was not made by a crash. */
const LOOK_BYTES = 64 * 1024

/**
 * Whether the conversation at `sessionDir` is empty, or nothing but blank lines, while the committed one has content: what a
 * crash of the host's file system leaves of a file that was being replaced. A snapshot of it would cover the good one.
 */
export function hasEmptiedConversation(sessionDir: string, committed: Manifest): boolean {
  const entry = committed.entries[CONVERSATION_PATH]
  if (entry === undefined || entry.size === 0) return false
  let fd: number
  try {
    fd = openSync(join(sessionDir, CONVERSATION_PATH), 'r')
  } catch (error) {
    // A file that is gone was deleted; one that can't be read is for the boot to complain about.
    if (systemCode(error) !== undefined) return false
    throw error
  }
  try {
    const bytes = Buffer.alloc(LOOK_BYTES)
    const length = readSync(fd, bytes, 0, LOOK_BYTES, 0)
    return length < LOOK_BYTES && bytes.subarray(0, length).toString('latin1').trim() === ''
  } finally {
    closeSync(fd)
  }
}
