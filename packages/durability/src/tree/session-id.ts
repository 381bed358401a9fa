import { randomInt } from 'node:crypto'
import { NexusError } from '@nexus/errors'
import type { Clock } from '@nexus/host'

/** How {@link generateSessionId} writes an id, as `core.sessions.id_format` names it. */
export type SessionIdFormat = 'timestamp' | 'datetime_short' | 'hex'

/** Where the parts of a generated id come from. */
export interface SessionIdSource {
  clock: Pick<Clock, 'now'>
  /** A number in [0, 1), drawn once per 32 bits. Default: the cryptographic generator of Node. */
  random?: () => number
}

// No dot: `<id>.manifest`, `<id>.owner` and `<id>.snapshot.json` are siblings of the session in a store.
const SESSION_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/
// A tree that may travel to a Windows host, or a share, must not be named like one of its devices.
const DEVICE_NAME = /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])$/i

/** Tells whether a value can name a session: 1 to 128 of `A-Z a-z 0-9 _ -`, the first no `_` or `-`, no device name. */
export function isSessionId(value: unknown): value is string {
  return typeof value === 'string' && SESSION_ID.test(value) && !DEVICE_NAME.test(value)
}

/**
 * Returns the id as it is, or throws `INVALID_ARGUMENT`. Every path and every object key of a session is built from an
 * id that went through here.
 *
 * @see docs/formats/session-tree.md
 */
export function validateSessionId(id: unknown): string {
  if (isSessionId(id)) return id
  const shown = typeof id === 'string' ? JSON.stringify(id.length > 150 ? `${id.slice(0, 150)}…` : id) : typeof id
  throw new NexusError(
    'INVALID_ARGUMENT',
    `${shown} can't name a session: use 1 to 128 letters, digits, "_" or "-", beginning with a letter or digit, ` +
      'and no device name such as CON or NUL',
    { op: 'session.id' },
  )
}

/**
 * Makes a new id: `timestamp` gives `20261129T163412Z-1a2b3c4d` (UTC, sorts by time), `datetime_short` gives
 * `1129-1634-1a2b`, `hex` gives 32 hex digits. Only `hex` and `timestamp` are unlikely to collide across hosts.
 */
export function generateSessionId(format: SessionIdFormat, source: SessionIdSource): string {
  const random = source.random ?? cryptoRandom
  if (format === 'hex') return word(random) + word(random) + word(random) + word(random)
  const stamp = new Date(source.clock.now()).toISOString().replaceAll(/[-:]/g, '')
  if (format === 'timestamp') return `${stamp.slice(0, 15)}Z-${word(random)}`
  return `${stamp.slice(4, 8)}-${stamp.slice(9, 13)}-${word(random).slice(0, 4)}`
}

function word(random: () => number): string {
  return Math.floor(random() * 2 ** 32)
    .toString(16)
    .padStart(8, '0')
}

function cryptoRandom(): number {
  return randomInt(2 ** 32) / 2 ** 32
}
