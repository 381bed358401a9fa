import assert from 'node:assert/strict'
import type { ResumeCase } from '../resume-case.ts'

/** A session that moves back and forth. */
export const twoHostsCases: readonly ResumeCase[] = [
  {
    name: 'two hosts in turn keep one ascending generation and one conversation',
    async run(lab) {
      const generations: number[] = [(await lab.kill('a', ['first turn'])).state.generation]
      let lines = 2
      for (const name of ['b', 'c', 'b']) {
        const host = await lab.resume(name)
        await host.engine.session.appendFile('context/conversation.jsonl', `{"role":"user","content":"${name}"}\n`)
        await host.engine.commit('two hosts')
        lines += 1
        const state = await host.state()
        assert.equal(
          state.history.trim().split('\n').length,
          lines,
          'a host did not see what the one before it committed',
        )
        await host.engine.stop()
        generations.push(host.engine.status().durability?.generation ?? 0)
      }
      const ascending = generations.every(
        (generation, index) => index === 0 || generation > (generations[index - 1] ?? 0),
      )
      assert.ok(ascending, `generations went ${generations.join(', ')}`)
    },
  },
]
