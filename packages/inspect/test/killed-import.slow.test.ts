import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openSession } from '@nexus/engine'
import { silentLogger } from '@nexus/host'
import { tempDir } from '@nexus/host/testing'
import { describe, expect, it } from 'vitest'
import { exportSession, importSession, IMPORT_FAILPOINTS, inspectSession } from '../src/index.ts'

const logger = silentLogger

async function endedSession(root: string, text: string): Promise<void> {
  const session = await openSession({ id: 's1', root, logger })
  await session.workspace.writeFile('files/a', text)
  await session.close()
}

describe('an import over a session, killed at any step', () => {
  it.each(IMPORT_FAILPOINTS)('at %s leaves the old session whole or the new one, and can be done again', async (at) => {
    const [from, root] = [tempDir(), tempDir()]
    await endedSession(from, 'new')
    await endedSession(root, 'old')
    const archive = join(from, 'archive')
    {
      await using session = await inspectSession('s1', { sessionsRoot: join(from, 'sessions') })
      await exportSession(session, archive)
    }
    const sessionsRoot = join(root, 'sessions')
    const child = fork(fileURLToPath(new URL('import-child.ts', import.meta.url)), [archive, sessionsRoot, at])
    expect(await once(child, 'exit')).toEqual([null, 'SIGKILL'])
    const left = readdirSync(sessionsRoot).filter((name) => name === 's1' || name.startsWith('.stale-'))
    const texts = left.map((name) => readFileSync(join(sessionsRoot, name, 'files/a'), 'utf8'))
    // Something is at the place of the session, whole; or nothing is, and the old one lies beside it.
    const place = left.includes('s1') ? texts[left.indexOf('s1')] : texts.join()
    expect(left.includes('s1') ? ['old', 'new'] : ['old']).toContain(place)
    await importSession(archive, { sessionsRoot, overwrite: true })
    const staged = (): string[] => readdirSync(sessionsRoot).filter((name) => name.startsWith('.hydrating-'))
    // A boot leaves young ones alone.
    for (const name of staged()) utimesSync(join(sessionsRoot, name), 0, 0)
    const resumed = await openSession({ id: 's1', root, logger })
    expect((await resumed.workspace.readFile('files/a')).toString()).toBe('new')
    await resumed.close()
    expect(staged()).toEqual([])
  })
})
