import assert from 'node:assert/strict'
import { SESSION_ID, type ResumeCase } from '../resume-case.ts'
import { SCRIBE_ID } from '../scribe.ts'

interface StoredManifest {
  generation: number
  objects: string[]
}

/** What a host leaves that dies when everything but the commit itself is stored. */
export const interruptedCommitCases: readonly ResumeCase[] = [
  {
    name: 'a host that dies before its manifest leaves exactly the committed set',
    async run(lab) {
      const committed = (await lab.kill('a', ['first turn', 'second turn'], { when: 'at-manifest', visit: 2 })).state
      const manifestKey = await lab.keyOf(`${SESSION_ID}.manifest/manifest.json`)
      const stored = await lab.store.get(lab.bucket, manifestKey)
      const manifest = JSON.parse(Buffer.from(stored).toString()) as StoredManifest
      assert.ok(!manifest.objects.includes('files/second.md'), 'the manifest names an object of the dead generation')
      const orphan = await lab.keyOf(`sessions/${SESSION_ID}/files/second.md`)
      assert.ok(
        await lab.store.exists(lab.bucket, orphan),
        'the orphan should have reached the bucket before the death',
      )

      const host = await lab.resume('b')
      const state = await host.state()
      assert.equal(await host.engine.session.fileExists('files/second.md'), false, 'an uncommitted object was restored')
      assert.deepEqual(
        Object.keys(state.tree),
        Object.keys(committed.tree),
        'the restored set is not the committed one',
      )
      assert.equal(state.history, committed.history, 'an appended file was not cut back to its committed bytes')
      // Where the mirror layout ends: what the dead generation rewrote in place is restored as it is, and reported.
      const rewritten = ['files/report.md', 'metadata/session.json', `plugins/${SCRIBE_ID}/store.db`]
      assert.deepEqual(state.mixed.toSorted(), rewritten, 'the rewritten objects were not reported as mixed')
      assert.ok(await lab.store.exists(lab.bucket, orphan), 'a resume deleted from the bucket')
    },
  },
]
