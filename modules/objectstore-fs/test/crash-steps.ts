import type { DirectBucket } from './direct-bucket.ts'

export interface CrashStep {
  verb: 'put' | 'create' | 'delete'
  key: string
  content?: string
}

const large = (letter: string): string => letter.repeat(1_200_000)

/** What the dying process does, in order: new and replaced objects, creations, a key that is moved aside, deletions. */
export const crashSteps: readonly CrashStep[] = [
  { verb: 'put', key: 's/a', content: 'first' },
  { verb: 'put', key: 's/a', content: large('a') },
  { verb: 'create', key: 's/claim', content: 'mine' },
  { verb: 'put', key: 's/dir', content: 'will be moved aside' },
  { verb: 'put', key: 's/dir/below/f', content: large('b') },
  { verb: 'put', key: 's/dir', content: 'replaced aside' },
  { verb: 'create', key: 's/claim/below', content: 'moves the claim aside' },
  { verb: 'delete', key: 's/a' },
  { verb: 'delete', key: 's/dir' },
  { verb: 'put', key: 's/last', content: 'last' },
]

/** The objects after the first `count` steps. */
export function objectsAfter(count: number): Map<string, string> {
  const objects = new Map<string, string>()
  for (const { verb, key, content = '' } of crashSteps.slice(0, count)) {
    if (verb === 'delete') objects.delete(key)
    else objects.set(key, content)
  }
  return objects
}

/** Does one step with the content of the local file. */
export async function perform(bucket: DirectBucket, { verb, key }: CrashStep, localPath: string): Promise<void> {
  if (verb === 'put') await bucket.put(key, localPath)
  else if (verb === 'create') await bucket.create(key, localPath)
  else await bucket.delete(key)
}
