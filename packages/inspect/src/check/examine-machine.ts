import { accessSync, constants, existsSync, readdirSync, statfsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import process from 'node:process'
import { isSessionId } from '@nexus/durability/names'
import type { ObjectStore } from '@nexus/objectstore'
import { lookAtLock } from '../read/lock-look.ts'

/** One thing that was looked at. */
export interface Finding {
  readonly what: string
  readonly status: 'ok' | 'warning' | 'failed'
  /** What was found, and the way out where it isn't ok. */
  readonly detail: string
}

const LEFTOVER = /^\.(?:hydrating|snapshot|removing|stale)-/
const LITTLE_SPACE_BYTES = 2 ** 30
const OLDEST_NODE: readonly [number, number] = [20, 19]

/**
 * Looks at what a session needs of this machine and of its store. Changes nothing, there or here.
 *
 * @param openStore undefined when none is configured
 */
export async function examineMachine(
  sessionsRoot: string,
  openStore: (() => Promise<ObjectStore | undefined>) | undefined,
  signal?: AbortSignal,
): Promise<Finding[]> {
  const findings = [node()]
  findings.push(...looking('data root', () => dataRoot(sessionsRoot)))
  if (existsSync(sessionsRoot)) {
    findings.push(...looking('leftovers', () => leftovers(sessionsRoot)))
    findings.push(...looking('locks', () => locks(sessionsRoot)))
  }
  findings.push(await objectStore(openStore, signal))
  return findings
}

function looking(what: string, look: () => Finding[]): Finding[] {
  try {
    return look()
  } catch (error) {
    return [{ what, status: 'failed', detail: reason(error) }]
  }
}

function node(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const [oldest, oldestMinor] = OLDEST_NODE
  const isFit = major > oldest || (major === oldest && minor >= oldestMinor)
  const detail = `Node.js ${process.versions.node}${isFit ? '' : `: ${OLDEST_NODE.join('.')} or newer is needed`}`
  return { what: 'node', status: isFit ? 'ok' : 'failed', detail }
}

/** What isn't there yet is made by the first session: then what counts is the directory above it. */
function dataRoot(sessionsRoot: string): Finding[] {
  let dir = sessionsRoot
  while (!existsSync(dir) && dirname(dir) !== dir) dir = dirname(dir)
  accessSync(dir, constants.W_OK)
  const { bavail, bsize, ffree, files } = statfsSync(dir)
  const freeBytes = bavail * bsize
  const gib = `${(freeBytes / 2 ** 30).toFixed(1)} GiB free`
  const isThere = dir === sessionsRoot ? '' : ', to be made by the first session'
  const inodes: Finding[] =
    files > 0 && ffree < files / 100
      ? [{ what: 'inodes', status: 'warning', detail: `${ffree} of ${files} left: remove files, or sessions` }]
      : []
  return [
    {
      what: 'data root',
      status: freeBytes < LITTLE_SPACE_BYTES ? 'warning' : 'ok',
      detail: `${sessionsRoot}${isThere}: writable, ${gib}`,
    },
    ...inodes,
  ]
}

function leftovers(sessionsRoot: string): Finding[] {
  const found = readdirSync(sessionsRoot).filter((name) => LEFTOVER.test(name))
  const aside = found.filter((name) => name.startsWith('.stale-'))
  const detail = found.length === 0 ? 'none' : `${found.join(', ')}: the next boot removes what is not needed`
  return [{ what: 'leftovers', status: aside.length > 0 ? 'warning' : 'ok', detail }]
}

function locks(sessionsRoot: string): Finding[] {
  return readdirSync(sessionsRoot)
    .filter(isSessionId)
    .flatMap((id) => {
      const { state, pid, transport } = lookAtLock(join(sessionsRoot, id))
      if (state === 'free') return []
      const holder = `process ${pid ?? '?'} (${transport ?? 'unknown'})`
      const detail =
        state === 'live' ? `${id} is open in ${holder}` : `${id} was left by ${holder}: resume it, or remove it`
      return [{ what: 'locks', status: state === 'live' ? 'ok' : 'warning', detail } as const]
    })
}

async function objectStore(
  openStore: (() => Promise<ObjectStore | undefined>) | undefined,
  signal: AbortSignal | undefined,
): Promise<Finding> {
  const what = 'object store'
  try {
    const store = await openStore?.()
    if (store === undefined)
      return { what, status: 'ok', detail: 'none is configured: sessions live on this machine only' }
    const startedMs = performance.now()
    await store.listNames('sessions', signal === undefined ? {} : { signal })
    const tookMs = Math.round(performance.now() - startedMs)
    const can = store.capabilities.putIfAbsent ? 'creates conditionally' : 'has no conditional create'
    return { what, status: 'ok', detail: `${store.name} answers in ${tookMs} ms, ${can}` }
  } catch (error) {
    return { what, status: 'failed', detail: reason(error) }
  }
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
