import type { CatchingTest, WrittenMutant } from './mutant.ts'

const SOURCE = 'modules/objectstore-fs/src'

function fsTest(file: string, name: string): CatchingTest {
  return { file: `modules/objectstore-fs/test/${file}.test.ts`, name }
}

const OVERTAKING = fsTest('overtaking', 'leave what some order would have left')

/** Two processes on one directory bucket, at the keys whose places on disk exclude each other. */
export const directoryBucketMutants: readonly WrittenMutant[] = [
  {
    id: 'put-not-looked-after',
    breaks: 'believes a put at a path whose object was taken aside meanwhile',
    file: `${SOURCE}/object/name-object.ts`,
    find: `return aside === undefined || aside.ino === temp.ino ? place.plain : undefined`,
    replace: `return aside === undefined || aside.ino !== 0n ? place.plain : undefined`,
    tests: [OVERTAKING],
  },
  {
    id: 'create-unconfirmed',
    breaks: 'claims a creation at a path that was free only for an instant',
    file: `${SOURCE}/object/name-object.ts`,
    find: `if (link(context, temp, place.plain)) return confirmCreated(context, temp, place)`,
    replace: `if (link(context, temp, place.plain)) return confirmCreated !== undefined`,
    tests: [OVERTAKING],
  },
  {
    id: 'leftover-read',
    breaks: 'reads a leftover at the plain path though the object is aside',
    file: `${SOURCE}/object/object-place.ts`,
    find: `const plain = aside === undefined ? openFile(context, place.plain) : undefined`,
    replace: `const plain = aside === undefined || aside.isFile() ? openFile(context, place.plain) : undefined`,
    tests: [OVERTAKING],
  },
  {
    id: 'moved-object-unlisted',
    breaks: 'leaves out of a listing an object that is taken aside during it',
    file: `${SOURCE}/list.ts`,
    find: `if (!asideNames.has(name) && !add(name, \`\${path}/\${name}\`)) asideNames.add(name)`,
    replace: `if (!asideNames.has(name)) add(name, \`\${path}/\${name}\`)`,
    tests: [fsTest('overtaking', 'lists everything that was there before and after, once')],
  },
  {
    id: 'moved-object-survives',
    breaks: 'deletes only the plain path of an object that is taken aside at that moment',
    file: `${SOURCE}/remove.ts`,
    find: `if (aside?.ino !== object.ino || aside.mtimeNs !== object.mtimeNs) break`,
    replace: `if (aside?.ino !== 0n) break`,
    tests: [OVERTAKING],
  },
]
