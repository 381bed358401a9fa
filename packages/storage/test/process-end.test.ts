import { expect, it } from 'vitest'
import { startChild } from './child.ts'
import { tempDir } from './temp-dir.ts'

it.each(['dispose', 'nothing'])('a process ends by itself after %s, although a worker was started', async (way) => {
  const child = startChild('end-child.ts', [tempDir(), way])
  expect(await child.ended).toBe(0)
  expect(child.messages).toEqual(['end'])
})
