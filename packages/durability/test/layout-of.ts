import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { noFailpoint, silentLogger, systemClock } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import type { Layout } from '../src/layout/layout.ts'
import type { MirrorContext } from '../src/mirror/commit.ts'
import { mirrorLayout } from '../src/mirror-layout.ts'

let scratchDir: string | undefined

/** The mirror layout over a store, as a run of the session opens it. */
export function layoutOf(store: ObjectStore, sessionId: string, more: Partial<MirrorContext> = {}): Layout {
  scratchDir ??= mkdtempSync(join(tmpdir(), 'nexus-layout-'))
  const settled = { clock: systemClock, logger: silentLogger, failpoint: noFailpoint }
  return mirrorLayout({ ...settled, ...more, store, sessionId }, scratchDir)
}
