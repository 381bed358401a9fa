import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tempDir } from '@nexus/host/testing'
import { expect, it } from 'vitest'
import { nexus } from './session-fixture.ts'

it('checks a configuration, prints what is in force without secrets, and gives its schema', async () => {
  const dir = tempDir()
  const [good, bad] = [join(dir, 'good.yaml'), join(dir, 'bad.yaml')]
  const store = `object_store: { backend: memory-test, bucket: ${dir}, options: { secret: hush } }`
  writeFileSync(good, `core:\n  sessions: { root: ${dir} }\n  ${store}\n`)
  writeFileSync(bad, 'core: { sesions: {} }\njournal: { fsync: sometimes }\n')
  expect((await nexus('config', 'check', good, '--json')).json).toMatchObject({ ok: true, path: good })
  const refused = await nexus('config', 'check', bad)
  expect([refused.code, refused.notes.join()]).toEqual([2, expect.stringMatching(/sesions[^]*fsync/)])
  const printed = await nexus('config', 'print', '-c', good, '--json')
  expect(printed.json).toMatchObject({ 'core.sessions.root': dir, 'core.objectStore.bucket': dir })
  expect(printed.lines.join()).not.toContain('hush')
  expect((await nexus('config', 'schema')).json).toMatchObject({ title: 'Nexus configuration' })
  expect((await nexus('config', 'check')).code).toBe(2)
})
