import { join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { META_PATH } from '@nexus/durability/names'
import { readPlainFile } from '@nexus/host'

/** What a session knows of itself, kept in `metadata/session.json` (snake_case there). */
export interface SessionMeta {
  readonly id: string
  /** RFC 3339, UTC. */
  readonly startedAt: string
  /** RFC 3339, UTC; absent while active. */
  readonly endedAt?: string
  readonly profile: string
  /** Ids of the active plugins. */
  readonly plugins: readonly string[]
  readonly labels: Readonly<Record<string, string>>
  readonly turnCount: number
  readonly tokensUsed: number
  readonly promptTokensUsed: number
  readonly completionTokensUsed: number
  readonly costUsd: number
  readonly status: 'active' | 'ended'
  /** Journal position up to which events are counted in the totals; absent before the first one. */
  readonly countedSeq?: number
  /** Fields that this version doesn't know, kept when the file is rewritten. */
  readonly extra?: Readonly<Record<string, unknown>>
}

/** What the one who starts or resumes a session says about it. */
export interface SessionProfile {
  profile?: string
  plugins?: readonly string[]
  labels?: Readonly<Record<string, string>>
}

/** The metadata of a session that begins now. */
export function newSessionMeta(id: string, startedAtMs: number, about: SessionProfile = {}): SessionMeta {
  return {
    id,
    startedAt: new Date(startedAtMs).toISOString(),
    profile: about.profile ?? '',
    plugins: [...(about.plugins ?? [])],
    labels: { ...about.labels },
    turnCount: 0,
    tokensUsed: 0,
    promptTokensUsed: 0,
    completionTokensUsed: 0,
    costUsd: 0,
    status: 'active',
  }
}

/** The same session, running again: active, without an end. Labels are added to those it had. */
export function resumedMeta(meta: SessionMeta, about: SessionProfile = {}): SessionMeta {
  const { endedAt: _ended, ...rest } = meta
  return {
    ...rest,
    profile: about.profile ?? meta.profile,
    plugins: [...(about.plugins ?? meta.plugins)],
    labels: { ...meta.labels, ...about.labels },
    status: 'active',
  }
}

/** The same session, ended. */
export function endedMeta(meta: SessionMeta, endedAtMs: number): SessionMeta {
  return { ...meta, endedAt: new Date(endedAtMs).toISOString(), status: 'ended' }
}

/** The bytes of `metadata/session.json`. */
export function serializeMeta(meta: SessionMeta): string {
  const known = {
    id: meta.id,
    started_at: meta.startedAt,
    ...(meta.endedAt === undefined ? {} : { ended_at: meta.endedAt }),
    profile: meta.profile,
    plugins: meta.plugins,
    labels: meta.labels,
    turn_count: meta.turnCount,
    tokens_used: meta.tokensUsed,
    prompt_tokens_used: meta.promptTokensUsed,
    completion_tokens_used: meta.completionTokensUsed,
    cost_usd: meta.costUsd,
    status: meta.status,
    ...(meta.countedSeq === undefined ? {} : { counted_seq: meta.countedSeq }),
  }
  return `${JSON.stringify({ ...meta.extra, ...known }, undefined, 2)}\n`
}

/**
 * Reads `metadata/session.json`. Missing counters are 0 and a missing profile is empty, as older writers left them.
 *
 * @throws NexusError `CORRUPT` naming the field when a value has another type than it must have
 */
export function parseMeta(text: string, path: string): SessionMeta {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch (error) {
    throw corrupt(path, 'is not JSON', error)
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) throw corrupt(path, 'holds no object')
  const fields = new Map(Object.entries(parsed))
  const take = <T>(name: string, fallback: T | undefined, accept: (value: unknown) => value is T): T => {
    const value = fields.get(name) ?? fallback
    fields.delete(name)
    if (!accept(value)) throw corrupt(path, `has a wrong or missing "${name}"`)
    return value
  }
  const endedAt = fields.get('ended_at') == null ? undefined : take('ended_at', undefined, isTime)
  fields.delete('ended_at')
  const countedSeq = fields.get('counted_seq') == null ? undefined : take('counted_seq', undefined, isCount)
  const meta: SessionMeta = {
    id: take('id', undefined, isString),
    startedAt: take('started_at', undefined, isTime),
    ...(endedAt === undefined ? {} : { endedAt }),
    profile: take('profile', '', isString),
    plugins: take('plugins', [], isStrings),
    labels: take('labels', {}, isLabels),
    turnCount: take('turn_count', 0, isCount),
    tokensUsed: take('tokens_used', 0, isCount),
    promptTokensUsed: take('prompt_tokens_used', 0, isCount),
    completionTokensUsed: take('completion_tokens_used', 0, isCount),
    costUsd: take('cost_usd', 0, isCount),
    status: take('status', undefined, isStatus),
    ...(countedSeq === undefined ? {} : { countedSeq }),
  }
  return fields.size === 0 ? meta : { ...meta, extra: Object.fromEntries(fields) }
}

/**
 * Reads the metadata of a session without opening it.
 *
 * @returns undefined when there is no `metadata/session.json`
 * @throws NexusError `CORRUPT`, `PRECONDITION` for a link in its place, `PERMISSION` or `LOCAL_IO`
 */
export async function readSessionMeta(sessionDir: string): Promise<SessionMeta | undefined> {
  const path = join(sessionDir, META_PATH)
  const bytes = readPlainFile(path)
  return bytes === undefined ? undefined : parseMeta(bytes.toString(), path)
}

function corrupt(path: string, what: string, cause?: unknown): NexusError {
  return new NexusError('CORRUPT', `${path} ${what}: restore it from a snapshot, or move it away to start it anew`, {
    op: 'session.meta',
    key: path,
    cause,
  })
}

const isString = (value: unknown): value is string => typeof value === 'string'
const isTime = (value: unknown): value is string => isString(value) && !Number.isNaN(Date.parse(value))
const isCount = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value) && value >= 0
const isStatus = (value: unknown): value is SessionMeta['status'] => value === 'active' || value === 'ended'
const isStrings = (value: unknown): value is string[] => Array.isArray(value) && value.every(isString)
const isLabels = (value: unknown): value is Record<string, string> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Object.values(value).every(isString)
