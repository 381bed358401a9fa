import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { openSession } from '@nexus/engine'
import { SESSION_ID, type ResumeCase } from '../resume-case.ts'
import { ROWS, SCRIBE_ID } from '../scribe.ts'

/** What lies in the bucket, read with a client that is not the backend. */
export const storedObjectCases: readonly ResumeCase[] = [
  {
    name: 'the stored store.db is a database by itself',
    async run(lab) {
      await lab.kill('a', ['first turn'])
      const key = await lab.keyOf(`sessions/${SESSION_ID}/plugins/${SCRIBE_ID}/store.db`)
      const bytes = await lab.store.get(lab.bucket, key)
      const root = lab.dataRoot('reader')
      const probe = await openSession({ id: 'probe', root })
      try {
        const path = join(probe.dir, 'plugins', 'pulled', 'store.db')
        mkdirSync(dirname(path), { recursive: true })
        writeFileSync(path, bytes)
        const { db } = probe.storage('pulled')
        assert.equal(db.pragma('integrity_check', { simple: true }), 'ok')
        assert.equal(db.prepare('SELECT count(*) FROM facts').pluck().get(), ROWS)
      } finally {
        await probe.close()
      }
    },
  },
  {
    name: 'nothing that belongs to one machine is in the bucket',
    async run(lab) {
      await lab.kill('a', ['first turn'])
      const keys = await lab.store.keys(lab.bucket)
      const foreign = keys.filter((key) =>
        /session\.lock|-wal$|-shm$|-journal$|\.nexus-tmp|\.snapshot-|\.hydrating-/.test(key),
      )
      assert.deepEqual(foreign, [], 'locks, sidecars or temporary files crossed the seam')
      for (const suffix of [`${SESSION_ID}.manifest/manifest.json`, `${SESSION_ID}.snapshot.json`]) {
        assert.ok(await lab.store.exists(lab.bucket, await lab.keyOf(suffix)))
      }
    },
  },
]
