import { closeSync, constants, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { systemCode } from '@nexus/errors'
import type { Manifest } from './manifest.ts'

const CONVERSATION_PATH = 'context/conversation.jsonl'

/** A file of blank lines that is longer than this was not made by a crash. */
const LOOK_BYTES = 64 * 1024

/**
 * Whether the conversation at `sessionDir` is there and empty, or nothing but blank lines: what a crash of the host's file
 * system leaves of a file that was being replaced.
 */
export function hasBlankConversation(sessionDir: string): boolean {
  let fd: number
  try {
    fd = openSync(join(sessionDir, CONVERSATION_PATH), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
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

/** Whether a commit's conversation has content, which a snapshot of a blank one would cover. */
export function hasConversation({ entries }: Manifest): boolean {
  return (entries[CONVERSATION_PATH]?.size ?? 0) > 0
}
