import assert from 'node:assert/strict'
import { BLOB_MEDIA_TYPE, blobBytes, ROWS, SCRIBE_ID } from '../scribe.ts'
import type { ResumeCase } from '../resume-case.ts'

/** What a host that is killed after its last boundary leaves to one that never saw the session. */
export const killAndResumeCases: readonly ResumeCase[] = [
  {
    name: 'a killed host leaves the last completed turn, and none of what came after',
    async run(lab) {
      const completed = (await lab.kill('a', ['first turn'])).state
      const killed = (await lab.kill('a2', ['unfinished turn'])).state
      assert.notEqual(killed.history, completed.history, 'the unfinished turn wrote nothing: the case proves nothing')
      const host = await lab.resume('b')
      const state = await host.state()
      assert.equal(state.history, completed.history, 'the conversation is not, byte for byte, the committed one')
      assert.deepEqual(
        state.replayed,
        completed.history
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line) as unknown),
        'the messages that the resumed session replays are not those of the committed conversation',
      )
      assert.equal(
        await host.engine.session.fileExists('files/late.md'),
        false,
        'a file of the unfinished turn came back',
      )
      assert.equal(state.facts.length, ROWS, 'rows are missing, or one of the unfinished turn came back')
      assert.deepEqual(state.facts, completed.facts, 'the rows differ')
      assert.equal(state.integrity, 'ok', 'the restored database fails its integrity check')
      assert.deepEqual(state.mixed, [], 'a boundary that was committed whole was reported as mixed')
    },
  },
  {
    name: 'blobs come back with their bytes and media type',
    async run(lab) {
      await lab.kill('a', ['first turn'])
      const { engine } = await lab.resume('b')
      const { db } = engine.storage.open('session', SCRIBE_ID)
      const uri = String(db.prepare('SELECT blob FROM facts WHERE n = 1').pluck().get())
      const blob = await (await engine.session.blobStore()).get(uri, { verify: true })
      assert.equal(blob.mediaType, BLOB_MEDIA_TYPE)
      assert.ok(blobBytes().equals(blob.data), 'the blob is not what was put')
    },
  },
  {
    name: 'the hydrated tree equals the killed one, file by file',
    async run(lab) {
      const killed = (await lab.kill('a', ['first turn'])).state
      const { tree } = await (await lab.resume('b')).state()
      assert.deepEqual(
        tree,
        killed.tree,
        'paths, modes or contents differ between the killed tree and the hydrated one',
      )
    },
  },
  {
    name: 'app-scope rows survive the host',
    async run(lab) {
      const killed = (await lab.kill('a', ['first turn'])).state
      assert.equal(killed.sharedRows, 1)
      const { sharedRows } = await (await lab.resume('b')).state()
      assert.equal(sharedRows, 1, 'a database of the machine did not come with it')
      const sessionKeys = (await lab.store.keys(lab.bucket)).filter((key) => key.includes('sessions/'))
      const nested = sessionKeys.filter((key) => /sessions\/[^/]*\/.*sessions\//.test(key))
      assert.deepEqual(nested, [], 'a shared database was stored under a session')
    },
  },
]
