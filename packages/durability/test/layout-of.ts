import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { noFailpoint, silentLogger, systemClock } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import type { Layout } from '../src/layout/layout.ts'
import type { MirrorContext } from '../src/mirror/commit.ts'
import { mirrorLayout } from '../src/mirror-layout.ts'
import { DEFAULT_KEEP } from '../src/versioned/keep.ts'
import { type VersionedContext, versionedLayout } from '../src/versioned/versioned-layout.ts'

let scratchDir: string | undefined

/** A layout as the tests of both name it. */
export type LayoutName = 'mirror' | 'versioned'

/** The versioned layout over a store, for a host whose sessions lie below a root. */
export function versionedOf(
  store: ObjectStore,
  sessionId: string,
  sessionsRoot: string,
  more: Partial<VersionedContext> = {},
): Layout {
  scratchDir ??= mkdtempSync(join(tmpdir(), 'nexus-layout-'))
  const settled = {
    clock: systemClock,
    logger: silentLogger,
    failpoint: noFailpoint,
    verifyContent: 'auto' as const,
    keep: DEFAULT_KEEP,
    ttlMs: 0,
  }
  const host = { instanceId: 'reader', host: 'reader', pid: 1, bootId: 'boot-1', mirror: layoutOf(store, sessionId) }
  return versionedLayout({ ...settled, ...host, store, sessionId, sessionsRoot, ...more }, scratchDir)
}

/** The mirror layout over a store, as a run of the session opens it. */
export function layoutOf(store: ObjectStore, sessionId: string, more: Partial<MirrorContext> = {}): Layout {
  scratchDir ??= mkdtempSync(join(tmpdir(), 'nexus-layout-'))
  const settled = { clock: systemClock, logger: silentLogger, failpoint: noFailpoint }
  return mirrorLayout({ ...settled, ...more, store, sessionId }, scratchDir)
}
