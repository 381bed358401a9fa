import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { openSession } from '@nexus/engine'
import { silentLogger } from '@nexus/host'
import { expect, it } from 'vitest'
import { newMachine, nexus } from './session-fixture.ts'

it('tells what a machine and its store have, who holds what, and what killed runs left', async () => {
  const machine = newMachine()
  const running = await openSession({ id: 's1', root: machine.root, logger: silentLogger })
  mkdirSync(join(machine.sessionsRoot, '.stale-s0-20260101T000000Z'))
  const { code, json } = await nexus('doctor', '-c', machine.config, '--json')
  expect([code, json]).toMatchObject([
    0,
    {
      ok: true,
      findings: [
        { what: 'node', status: 'ok' },
        { what: 'data root', status: expect.stringMatching(/ok|warning/) as string },
        { what: 'leftovers', status: 'warning', detail: expect.stringContaining('.stale-s0') as string },
        { what: 'locks', detail: expect.stringContaining('s1 is open') as string },
        { what: 'object store', status: 'ok', detail: expect.stringContaining('answers') as string },
      ],
    },
  ])
  await running.close()
})
